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

async function send(method, path, body, signal) {
  const headers = {};
  const authorization = sessionStorage.getItem(KEY);
  if (authorization) headers.Authorization = authorization;
  if (body !== undefined) headers["Content-Type"] = "application/json";
  const data = body === undefined ? undefined : JSON.stringify(body);
  if (data && tooLong(data)) throw new ApiError(413, tooLong(data));
  let response;
  try {
    response = await fetch(path, { method, headers, body: data, signal });
  } catch (error) {
    if (error.name === "AbortError") throw error;
    throw new ApiError(0, "The broker does not respond");
  }
  const text = await response.text();
  if (!response.ok) throw new ApiError(response.status, errorOf(text) ?? `HTTP status ${response.status}`);
  return text;
}

function errorOf(text) {
  try {
    return JSON.parse(text).error;
  } catch {
    return text;
  }
}

export async function call(method, path, body, signal) {
  return JSON.parse(await send(method, path, body, signal));
}

export const text = (path) => send("GET", path);

export const get = (path, signal) => call("GET", path, undefined, signal);

// Why the broker would not take a request of this length (admin/guards.py); an empty text if it does.
export const tooLong = (text) => (new Blob([text]).size > 1 << 20
  ? "This is longer than 1 MB, the most that the page writes at once. Write longer records with pybroker produce." : "");

// A browser takes the parts . and .. out of a path, so these names are encoded twice, as are those that look like them then.
function named(name) {
  if (/^\.{1,2}$/.test(name)) return name.replaceAll(".", "%252E");
  const once = encodeURIComponent(name);
  return /^(%(25)*2E){1,2}$/.test(name) ? encodeURIComponent(once) : once;
}

export function url(...parts) {
  return parts.map((part, at) => (at % 2 ? named(part) : part)).join("");
}

export function query(values) {
  const given = Object.entries(values).filter(([, value]) => value !== undefined && value !== null && value !== "");
  return given.length ? `?${new URLSearchParams(given)}` : "";
}
