// The broker's time, and how to let it pass.

import { call } from "./api.js";
import { cards, field, form, h, lead, notice, title } from "./parts.js";
import { number, time } from "./text.js";

export function show(main, stay) {
  const now = h("div");
  const move = h("div");
  main.append(title("Clock"), now, move);
  let isVirtual;
  stay.live(async () => {
    const found = await stay.get("/v1/clock");
    const offsets = Object.entries(found.offsets_ms).filter(([, ms]) => ms).map(([name, ms]) => [`Ahead: ${name}`, `${number(ms)} ms`]);
    now.replaceChildren(cards([["The broker's time", time(found.time_ms)], ...offsets]));
    if (found.is_virtual === isVirtual) return;
    isVirtual = found.is_virtual;
    move.replaceChildren(isVirtual ? advance() : lead("This broker has the clock of the machine. With pybroker.virtual.time=true, its time can be moved here."));
  }, 1000);
}

function advance() {
  return h("div", {}, h("h2", {}, "Let time pass"), form(async ({ by }) => {
    await call("POST", "/v1/clock/advance", { by });
    notice(`${by} have passed`);
  }, "Advance", field("By, such as 7d, 90m, 1h 30m, 500ms", h("input", { name: "by", required: true }))));
}
