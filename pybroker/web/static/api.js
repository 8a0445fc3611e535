// Requests to the JSON API of the broker. The token or the password, if one is needed, stays in this tab.

const KEY = "pybroker-authorization";

export class ApiError extends Error {
  constructor(status, text) {
    super(text);
    this.status = status;
  }
}

// A user of the broker with the password, or the operator with the token of the listener.
export function setLogin(user, secret) {
  const bytes = new TextEncoder().encode(`${user}:${secret}`);
  sessionStorage.setItem(KEY, user ? `Basic ${btoa(String.fromCharCode(...bytes))}` : `Bearer ${secret}`);
}

export const hasLogin = () => sessionStorage.getItem(KEY) !== null;

export async function call(method, path, body, signal) {
  const headers = {};
  const authorization = sessionStorage.getItem(KEY);
  if (authorization) headers.Authorization = authorization;
  if (body !== undefined) headers["Content-Type"] = "application/json";
  let response;
  try {
    response = await fetch(path, { method, headers, body: body === undefined ? undefined : JSON.stringify(body), signal });
  } catch (error) {
    if (error.name === "AbortError") throw error;
    throw new ApiError(0, "The broker does not respond");
  }
  const text = await response.text();
  let content = {};
  try {
    content = JSON.parse(text);
  } catch {
    content = { error: text };
  }
  if (!response.ok) throw new ApiError(response.status, content.error ?? `HTTP status ${response.status}`);
  return content;
}

export const get = (path, signal) => call("GET", path, undefined, signal);

export function url(...parts) {
  return parts.map((part, at) => (at % 2 ? encodeURIComponent(part) : part)).join("");
}

export function query(values) {
  const given = Object.entries(values).filter(([, value]) => value !== undefined && value !== null && value !== "");
  return given.length ? `?${new URLSearchParams(given)}` : "";
}
