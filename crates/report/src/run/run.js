"use strict";
// Shows the values under the pointer. Without this script the page lacks nothing else.
for (const svg of document.querySelectorAll("svg[data-points]")) {
  const series = svg.dataset.points.split("\n").map((line) => {
    const bar = line.indexOf("|");
    const points = line.slice(bar + 1).split(";").filter(Boolean).map((point) => point.split(","));
    return { name: line.slice(0, bar), points };
  });
  const tip = svg.parentNode.querySelector(".tip");
  const cursor = svg.querySelector(".cursor");
  const nearest = (points, left) => {
    let best = null;
    for (const point of points) {
      if (!best || Math.abs(point[0] - left) < Math.abs(best[0] - left)) best = point;
    }
    return best;
  };
  const hide = () => {
    tip.hidden = true;
    cursor.setAttribute("hidden", "");
  };
  svg.addEventListener("pointermove", (event) => {
    const box = svg.getBoundingClientRect();
    const scale = svg.viewBox.baseVal.width / box.width;
    const at = nearest(series.flatMap((one) => one.points), (event.clientX - box.left) * scale);
    if (!at) return;
    const lines = [];
    for (const one of series) {
      const point = nearest(one.points, at[0]);
      if (point && Math.abs(point[0] - at[0]) < 8) lines.push([one.name, point[3]]);
    }
    tip.replaceChildren();
    const head = document.createElement("b");
    head.textContent = svg.dataset.along + " " + at[2];
    tip.append(head);
    for (const [name, value] of lines) {
      const row = document.createElement("span");
      row.textContent = name + ": " + value;
      tip.append(row);
    }
    tip.hidden = false;
    const left = at[0] / scale;
    tip.style.left = Math.min(Math.max(left + 10, 0), box.width - tip.offsetWidth) + "px";
    if (left + 10 + tip.offsetWidth > box.width) tip.style.left = Math.max(0, left - 10 - tip.offsetWidth) + "px";
    cursor.setAttribute("x1", at[0]);
    cursor.setAttribute("x2", at[0]);
    cursor.removeAttribute("hidden");
  });
  svg.addEventListener("pointerleave", hide);
}
// On paper nothing can be opened.
addEventListener("beforeprint", () => document.querySelectorAll("details").forEach((one) => (one.open = true)));
