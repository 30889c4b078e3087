// The beginning of the scripts of all pages: the data, the colours for light and dark, and the defaults of
// plots.
"use strict";
const report = JSON.parse(document.getElementById("data").textContent);
const dark = matchMedia("(prefers-color-scheme: dark)").matches;
// Every colour has a contrast of at least 3:1 to the background.
const colours = dark ? ["#5bb8e0", "#f0995c", "#6fbf7e", "#c792dd", "#d9bb66", "#ec7f98", "#95a4ec", "#a9b4c0", "#5cc9c0", "#d4936f", "#b5d14a", "#e6a9e0"]
  : ["#0b6e99", "#c25a22", "#3a8549", "#8e4fa8", "#94771f", "#c23b5a", "#4c5fb0", "#6b7785", "#1d8379", "#a0522d", "#6a8601", "#b45aab"];
const ink = dark ? "#e4e8ee" : "#1c2430", paper = dark ? "#12171e" : "#fff";
const colour = i => colours[i % colours.length];
Chart.defaults.color = dark ? "#9aa6b5" : "#5c6878";
Chart.defaults.borderColor = dark ? "#344050" : "#e4e8ee";
Chart.defaults.font.family = "system-ui, sans-serif";
Chart.defaults.animation = false;
Chart.defaults.maintainAspectRatio = false;
// Keeps axes of counts, times and shares from beginning below zero, which would happen with a single point,
// or with an interval that touches zero.
Chart.defaults.scales.linear.afterDataLimits = scale => {
  if (scale.getMinMax(false).min >= 0) scale.min = Math.max(0, scale.min);
};

// Text from the data is always inserted as text, never as markup.
function add(parent, tag, text, cls) {
  const node = document.createElement(tag);
  if (text !== undefined) node.textContent = text;
  if (cls) node.className = cls;
  parent.appendChild(node);
  return node;
}
const intervalNote = "x ± y, or x (low to high): with 95 % confidence the mean lies between x − y and x + y, or between low and high. Means over two runs have no interval.";
const cutNote = "Intervals of these means are cut at the end of the first epoch and at the end of the job's training, because beyond these the job trains no epoch.";
const costUnit = "in the currency of the prices per hour";
const hasInterval = v => v && v.low !== undefined && v.high > v.low;
// The mean of `v`: "13.70 ± 0.15", rounded to the second significant digit of the interval; "3.3 (1.2 to
// 9.1)" if the interval is not nearly symmetrical; `alone` gives the text of a mean without an interval.
function withInterval(v, scale, alone) {
  const mean = (v.mean || 0) * scale;
  if (!hasInterval(v)) return alone(mean);
  const low = v.low * scale, high = v.high * scale, half = (high - low) / 2, most = 12;
  const decimals = width => Math.min(most, Math.max(0, 1 - Math.floor(Math.log10(width))));
  const rounded = (x, digits) => x.toLocaleString("en", {minimumFractionDigits: digits, maximumFractionDigits: digits});
  const digits = decimals(half);
  if (Math.abs(high + low - 2 * mean) <= .2 * half) return rounded(mean, digits) + " ±\u00a0" + rounded(half, digits);
  const finer = Math.max(digits, decimals(Math.min(...[high - mean, mean - low].filter(width => width > 0))));
  return rounded(mean, finer) + " (" + rounded(low, finer) + "\u00a0to\u00a0" + rounded(high, finer) + ")";
}
const axis = (title, more = {}) => Object.assign({title: {display: true, text: title}}, more);
// Adds a paragraph in which no line begins with a percent sign or breaks a flag such as --memory.
function say(parent, text, cls) {
  const node = add(parent, "p", undefined, cls);
  text.replaceAll(" %", "\u00a0%").split(/(--[a-z_]+(?:=[^\s.,;)]+)?)/).forEach((part, i) => {
    if (i % 2) add(node, "span", part, "flag");
    else node.append(part);
  });
  return node;
}
// The legend shows a dashed dataset by a dashed line, all others by a square of their colour.
function legendLabels(chart) {
  return Chart.defaults.plugins.legend.labels.generateLabels(chart).map(item => {
    const dashed = ((chart.data.datasets[item.datasetIndex] || {}).borderDash || []).length > 0;
    return Object.assign(item, {pointStyle: dashed ? "line" : "rect"}, dashed ? {lineDash: [3, 2], lineWidth: 2} : {lineWidth: 0, strokeStyle: item.fillStyle});
  });
}
// A plot with a caption above it. The legend is below the plot, unless the options say otherwise.
function figure(parent, caption, config, height) {
  const node = add(parent, "figure");
  add(node, "figcaption", caption);
  const box = add(node, "div", undefined, "canvas");
  if (height) box.style.height = height + "px";
  const options = Object.assign({}, config.options), plugins = Object.assign({}, options.plugins);
  const legend = Object.assign({position: "bottom"}, plugins.legend);
  legend.labels = Object.assign({boxWidth: 14, boxHeight: 10, usePointStyle: true, generateLabels: legendLabels}, legend.labels);
  options.plugins = Object.assign(plugins, {legend});
  config.options = options;
  const canvas = add(box, "canvas");
  canvas.setAttribute("role", "img");
  canvas.setAttribute("aria-label", caption);
  new Chart(canvas, config);
}
