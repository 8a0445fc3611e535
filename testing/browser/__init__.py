"""A real browser for the tests of the page: Debian's Chromium, by Playwright.

start      the browser, and what it is started with
"""
