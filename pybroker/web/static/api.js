// Requests to the JSON API of the broker. The token, if one is needed, stays in this tab.

const KEY = "pybroker-token";

export class ApiError extends Error {
  constructor(status, text) {
    super(text);
    this.status = status;
  }
}

export function setToken(token) {
  sessionStorage.setItem(KEY, token);
}

export async function call(method, path, body, signal) {
  const headers = {};
  const token = sessionStorage.getItem(KEY);
  if (token) headers.Authorization = `Bearer ${token}`;
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
