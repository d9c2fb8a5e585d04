// Small charts: lines, or stacked areas. All data is also available as text: current values in the legend, any moment by
// pointing or with the arrow keys, and a table on demand.
import {el, say, svg} from "/dom.js";

const height = 150;
const margin = {left: 46, right: 6, top: 8, bottom: 20};
const spans = [2, 5, 10, 15].map((minutes) => minutes * 60_000);
const tableRows = 12;

// The shortest span that holds all points: a gateway that has just started has little to show.
export function spanOf(points) {
  const long = points.length ? points.at(-1).at - points[0].at : 0;
  return spans.find((each) => each >= long) ?? spans.at(-1);
}

// The end of an axis: a plain number with a little room above `value`.
function roundUp(value) {
  if (!(value > 0)) return 1;
  const power = 10 ** Math.floor(Math.log10(value));
  return [1, 1.5, 2, 3, 4, 5, 6, 8, 10, 15].map((step) => step * power).find((step) => step >= value * 1.04);
}

export class Chart {
  // series: [{name, of: (point) => number or null, tone}], format: (value) => text, most: upper end or null.
  constructor({title, series, format, stacked = false, most = null, wide = false, hideZero = false}) {
    Object.assign(this, {title, series, format, stacked, most, hideZero, points: [], cursor: null, span: spans[0]});
    this.legend = el("ul", {class: "legend"});
    this.moment = el("span", {class: "moment"}, "now");
    this.values = series.map(({name, tone}) => {
      const value = el("b", {});
      const item = el("li", {}, el("i", {class: `tone ${tone}`, "aria-hidden": true}), el("span", {}, name), value);
      this.legend.append(item);
      return {item, value};
    });
    this.plot = svg("svg", {class: "plot", height, "aria-hidden": "true", focusable: "false"});
    this.frame = el("div", {class: "frame", tabindex: 0, role: "group", "aria-label": `${title}: arrow keys read earlier values`}, this.plot);
    this.table = el("div", {class: "numbers", hidden: true});
    this.node = el("figure", {class: wide ? "card chart wide" : "card chart"},
      el("figcaption", {}, el("h3", {}, title), this.moment), this.legend, this.frame, this.table);
    this.frame.addEventListener("pointermove", (event) => this.point(event));
    this.frame.addEventListener("pointerleave", () => this.moveTo(null));
    this.frame.addEventListener("blur", () => this.moveTo(null));
    this.frame.addEventListener("keydown", (event) => this.key(event));
    new ResizeObserver(() => this.draw()).observe(this.frame);
  }

  // `span`: the length of time shown.
  show(points, span) {
    this.points = points;
    this.span = span;
    if (this.cursor !== null && this.cursor >= points.length) this.cursor = null;
    this.draw();
  }

  showTable(yes) {
    this.table.hidden = !yes;
    this.draw();
  }

  point(event) {
    if (this.points.length === 0) return;
    const box = this.plot.getBoundingClientRect();
    const at = this.timeAt(event.clientX - box.left);
    let best = 0;
    this.points.forEach((point, index) => {
      if (Math.abs(point.at - at) < Math.abs(this.points[best].at - at)) best = index;
    });
    this.moveTo(best);
  }

  key(event) {
    const last = this.points.length - 1;
    if (last < 0) return;
    const from = this.cursor ?? last;
    const to = {ArrowLeft: from - 1, ArrowRight: from + 1, Home: 0, End: last, Escape: null}[event.key];
    if (to === undefined) return;
    event.preventDefault();
    this.moveTo(to === null ? null : Math.min(last, Math.max(0, to)));
    const spoken = this.values.filter(({item}) => !item.hidden).map(({item}) => item.textContent.replace(/([^\d\s])(\d)/, "$1 $2"));
    this.frame.setAttribute("aria-label", `${this.title}, ${this.moment.textContent}: ${spoken.join(", ")}`);
  }

  moveTo(index) {
    if (this.cursor === index) return;
    this.cursor = index;
    this.draw();
  }

  get end() {
    return this.points.at(-1)?.at ?? Date.now();
  }
  x(at) {
    return margin.left + (this.width - margin.left - margin.right) * (1 - (this.end - at) / this.span);
  }
  timeAt(x) {
    return this.end - this.span * (1 - (x - margin.left) / (this.width - margin.left - margin.right));
  }

  draw() {
    this.width = this.frame.clientWidth;
    this.drawLegend();
    if (!this.table.hidden) this.drawTable();
    if (!this.width) return;
    const visible = this.points.filter((point) => this.end - point.at <= this.span);
    const tops = visible.map((point) => {
      const values = this.series.map(({of}) => of(point) ?? 0);
      return this.stacked ? values.reduce((sum, value) => sum + value, 0) : Math.max(...values);
    });
    const most = this.most ?? roundUp(Math.max(0, ...tops));
    const y = (value) => margin.top + (height - margin.top - margin.bottom) * (1 - Math.min(1, value / most));
    this.plot.setAttribute("width", this.width);
    this.plot.replaceChildren(...this.axes(most, y), ...(this.stacked ? this.areas(visible, y) : this.lines(visible, y)), ...this.cross());
  }

  axes(most, y) {
    const nodes = [];
    for (const part of [0, 0.5, 1]) {
      const at = y(most * part);
      nodes.push(svg("line", {class: part === 0 ? "base" : "grid", x1: margin.left, x2: this.width - margin.right, y1: at, y2: at}));
      nodes.push(svg("text", {class: "tick", x: margin.left - 7, y: at + 3.5, "text-anchor": "end"}, this.format(most * part)));
    }
    const minutes = this.span / 60_000;
    for (const [part, anchor] of [[1, "start"], [0.5, "middle"], [0, "end"]]) {
      const x = this.x(this.end - part * this.span);
      nodes.push(svg("text", {class: "tick", x, y: height - 4, "text-anchor": anchor}, part === 0 ? "now" : `−${minutes * part} min`));
    }
    return nodes;
  }

  lines(points, y) {
    return this.series.flatMap(({of, tone}) => {
      const pieces = [];
      let piece = [];
      for (const point of points) {
        const value = of(point);
        if (value === null || value === undefined) {
          if (piece.length) pieces.push(piece);
          piece = [];
        } else {
          piece.push([this.x(point.at), y(value)]);
        }
      }
      if (piece.length) pieces.push(piece);
      const nodes = pieces.filter((each) => each.length > 1).map((each) =>
        svg("polyline", {class: `line ${tone}`, points: each.map(([x, at]) => `${x.toFixed(1)},${at.toFixed(1)}`).join(" ")}));
      const last = pieces.at(-1)?.at(-1);
      if (last) nodes.push(svg("circle", {class: `end ${tone}`, cx: last[0], cy: last[1], r: 2.6}));
      return nodes;
    });
  }

  areas(points, y) {
    if (points.length < 2) return [];
    const below = points.map(() => 0);
    return this.series.map(({of, tone}) => {
      const lower = points.map((point, index) => [this.x(point.at), y(below[index])]);
      points.forEach((point, index) => (below[index] += of(point) ?? 0));
      const upper = points.map((point, index) => [this.x(point.at), y(below[index])]);
      const outline = [...upper, ...lower.reverse()].map(([x, at]) => `${x.toFixed(1)},${at.toFixed(1)}`).join(" ");
      return svg("polygon", {class: `area ${tone}`, points: outline});
    });
  }

  cross() {
    if (this.cursor === null) return [];
    const x = this.x(this.points[this.cursor].at);
    return [svg("line", {class: "cross", x1: x, x2: x, y1: margin.top, y2: height - margin.bottom})];
  }

  drawLegend() {
    const point = this.cursor === null ? this.points.at(-1) : this.points[this.cursor];
    say(this.moment, this.cursor === null ? "now" : new Date(point.at).toLocaleTimeString());
    this.series.forEach(({of}, index) => {
      const {item, value} = this.values[index];
      say(value, this.format(point ? of(point) : null));
      item.hidden = this.hideZero && index > 1 && !this.points.some((each) => of(each) > 0);
    });
  }

  drawTable() {
    const step = Math.max(1, Math.ceil(this.points.length / tableRows));
    const rows = this.points.filter((_, index) => (this.points.length - 1 - index) % step === 0).reverse();
    this.table.replaceChildren(el("table", {}, el("caption", {class: "unseen"}, this.title),
      el("thead", {}, el("tr", {}, el("th", {scope: "col"}, "Time"), ...this.series.map(({name}) => el("th", {scope: "col", class: "n"}, name)))),
      el("tbody", {}, ...rows.map((point) => el("tr", {}, el("th", {scope: "row"}, new Date(point.at).toLocaleTimeString()),
        ...this.series.map(({of}) => el("td", {class: "n"}, this.format(of(point)))))))));
  }
}
