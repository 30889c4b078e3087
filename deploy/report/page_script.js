// The beginning of the scripts of all pages: the data, colours for light and dark, the plots' defaults.
"use strict";
const report = JSON.parse(document.getElementById("data").textContent);
const dark = matchMedia("(prefers-color-scheme: dark)").matches;
const colours = ["#0b6e99", "#d1662c", "#3f8f4f", "#8e4fa8", "#b8963b", "#c23b5a", "#4c5fb0", "#6b7785", "#2aa198", "#a0522d", "#7a9a01", "#d183c9"];
const colour = i => colours[i % colours.length];
Chart.defaults.color = dark ? "#9aa6b5" : "#5c6878";
Chart.defaults.borderColor = dark ? "#344050" : "#e4e8ee";
Chart.defaults.font.family = "system-ui, sans-serif";
Chart.defaults.animation = false;
Chart.defaults.maintainAspectRatio = false;

// Text from the data is always inserted as text, never as markup.
function add(parent, tag, text, cls) {
  const node = document.createElement(tag);
  if (text !== undefined) node.textContent = text;
  if (cls) node.className = cls;
  parent.appendChild(node);
  return node;
}
const intervalNote = "x ± y means between x − y and x + y, with 95 % confidence.";
// "13.70 ± 0.15", rounded to the second significant digit of the interval, whose half is `width`; `alone` gives the
// text of a mean without an interval.
function withInterval(mean, width, alone) {
  if (!(width > 0)) return alone(mean);
  const decimals = Math.min(12, Math.max(0, 1 - Math.floor(Math.log10(width))));
  const rounded = x => x.toLocaleString("en", {minimumFractionDigits: decimals, maximumFractionDigits: decimals});
  return rounded(mean) + " ±\u00a0" + rounded(width);
}
const axis = (title, more = {}) => Object.assign({title: {display: true, text: title}}, more);
// A plot with a caption above it. Its legend is below it, unless the options say otherwise.
function figure(parent, caption, config, height) {
  const node = add(parent, "figure");
  add(node, "figcaption", caption);
  const box = add(node, "div", undefined, "canvas");
  if (height) box.style.height = height + "px";
  config.options = Object.assign({plugins: {legend: {position: "bottom", labels: {boxWidth: 12}}}}, config.options);
  const canvas = add(box, "canvas");
  canvas.setAttribute("role", "img");
  canvas.setAttribute("aria-label", caption);
  new Chart(canvas, config);
}
