// How values are shown.

const UNITS = ["B", "kB", "MB", "GB", "TB"];
const numbers = new Intl.NumberFormat("en");

export const number = (value) => (value === null ? "-" : numbers.format(value));

export function bytes(value) {
  if (value === null) return "";
  let unit = 0;
  let shown = value;
  while (shown >= 1000 && unit < UNITS.length - 1) {
    shown /= 1000;
    unit += 1;
  }
  return `${unit && shown < 10 ? shown.toFixed(1) : Math.round(shown)} ${UNITS[unit]}`;
}

export function rate(perSecond) {
  if (perSecond === undefined) return "";
  return `${perSecond > 0 && perSecond < 10 ? perSecond.toFixed(1) : number(Math.round(perSecond))}/s`;
}

// In the zone of the browser, with its distance from UTC, which summer time changes.
export function time(ms) {
  if (ms < 0) return "none";
  const date = new Date(ms);
  if (Number.isNaN(date.getTime())) return String(ms);
  const two = (value, length = 2) => String(value).padStart(length, "0");
  const day = `${date.getFullYear()}-${two(date.getMonth() + 1)}-${two(date.getDate())}`;
  const ahead = -date.getTimezoneOffset();
  const minutes = Math.round(Math.abs(ahead));
  const zone = `${ahead < 0 ? "-" : "+"}${two(Math.floor(minutes / 60))}:${two(minutes % 60)}`;
  return `${day} ${two(date.getHours())}:${two(date.getMinutes())}:${two(date.getSeconds())}.${two(date.getMilliseconds(), 3)} ${zone}`;
}

export const ZONE = new Intl.DateTimeFormat().resolvedOptions().timeZone;

// What a key or value of a record is: a text, bytes, or nothing.
export function content(value) {
  if (value === null || value === undefined) return "null";
  if (typeof value === "object") return `base64: ${value.base64}`;
  return value;
}

// A text that is JSON, over several lines; any other text as it is.
export function pretty(value) {
  const text = content(value);
  if (typeof value !== "string" || !/^\s*[[{]/.test(value)) return text;
  try {
    return JSON.stringify(JSON.parse(value), null, 2);
  } catch {
    return text;
  }
}

export function partitions(list) {
  const byTopic = {};
  for (const one of list) (byTopic[one.topic] ??= []).push(one.partition);
  return Object.entries(byTopic).map(([topic, indexes]) => `${topic} ${indexes.join(", ")}`).join("; ");
}
