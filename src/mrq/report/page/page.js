"use strict";
// Shows values under the pointer or the finger, and adds a button to each figure that saves it as SVG.
const curves = JSON.parse(document.getElementById("curves").textContent);
const values = document.body.appendChild(document.createElement("div"));
values.id = "values";
values.hidden = true;
const namespace = "http://www.w3.org/2000/svg";
const significant = new Intl.NumberFormat("en", { maximumSignificantDigits: 4 });
const steps = new Intl.NumberFormat("en");

function add(parent, name, text, className) {
  const child = parent.appendChild(document.createElement(name));
  child.textContent = text || "";
  if (className) child.className = className;
  return child;
}

function shape(svg, name, attributes) {
  const drawn = svg.appendChild(document.createElementNS(namespace, name));
  for (const [key, value] of Object.entries({ ...attributes, "data-hover": "" })) drawn.setAttribute(key, value);
}

function clear() {
  document.querySelectorAll("[data-hover]").forEach((drawn) => drawn.remove());
  values.hidden = true;
}

function show(event, svg, data) {
  clear();
  const place = svg.getBoundingClientRect();
  const scale = place.width / data.width;
  const [left, top, right, bottom] = data.box;
  const wanted = ((event.clientX - place.left) / scale - left) / (right - left) * data.last;
  const all = data.curves.flatMap((curve) => curve[data.axis]);
  if (!all.length) return;
  const found = all.reduce((best, one) => (Math.abs(one - wanted) < Math.abs(best - wanted) ? one : best));
  const across = (number) => left + number / data.last * (right - left);
  const x = across(found);
  shape(svg, "line", { class: "guide", x1: x, x2: x, y1: top, y2: bottom });
  values.replaceChildren();
  const byHours = data.axis === "hours";
  add(values, "p", byHours ? `after ${significant.format(found)} hours` : `step ${steps.format(found)}`);
  const row = (name, colour, mean, low, high) => {
    const line = add(values, "div");
    add(line, "i", "", colour);
    const text = add(line, "span", `${name}: `);
    add(text, "b", significant.format(mean));
    text.append(` [${significant.format(low)}, ${significant.format(high)}]`);
  };
  for (const curve of data.curves) {
    // Lines share steps but not times: against hours, each line shows its latest evaluation.
    const at = byHours ? curve.hours.findLastIndex((one) => one <= found) : curve.steps.indexOf(found);
    if (at < 0) continue;
    const y = bottom - (curve.mean[at] - data.range[0]) / (data.range[1] - data.range[0]) * (bottom - top);
    shape(svg, "circle", { class: `dot c${curve.colour}`, cx: across(curve[data.axis][at]), cy: y, r: 3 });
    const name = byHours ? `${curve.name}, step ${steps.format(curve.steps[at])}` : curve.name;
    row(name, `c${curve.colour}`, curve.mean[at], curve.low[at], curve.high[at]);
  }
  if (data.paper && data.paper[0] === found) row(data.paperName, "", ...data.paper.slice(1));
  values.hidden = false;
  // Covers the legend, which it repeats; stands below the picture if the legend is out of sight.
  const above = place.top + top * scale - values.offsetHeight - 4;
  const beside = place.left + x * scale - values.offsetWidth / 2;
  const farthest = document.documentElement.clientWidth - values.offsetWidth - 4;
  values.style.left = `${scrollX + Math.max(4, Math.min(beside, farthest))}px`;
  values.style.top = `${scrollY + (above > 4 ? above : place.top + bottom * scale + 18)}px`;
}

for (const figure of document.querySelectorAll("figure")) {
  const svg = figure.querySelector("svg");
  const { name } = figure.dataset;
  if (curves[name]) {
    for (const kind of ["pointermove", "pointerdown"]) svg.addEventListener(kind, (event) => show(event, svg, curves[name]));
    svg.addEventListener("pointerleave", (event) => event.pointerType === "mouse" && clear());
  }
  const button = add(figure, "button", "SVG");
  button.title = "Save this figure as SVG";
  button.addEventListener("click", () => {
    clear();
    const link = document.createElement("a");
    link.href = URL.createObjectURL(new Blob([new XMLSerializer().serializeToString(svg)], { type: "image/svg+xml" }));
    link.download = `${name}.svg`;
    link.click();
  });
}
document.addEventListener("pointerdown", (event) => event.target.closest("figure svg") || clear());
addEventListener("scroll", clear, { passive: true });
