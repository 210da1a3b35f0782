"""What the page does besides the explorer: tables sort and filter, figures and tables are saved, legends single out."""

from __future__ import annotations

TABLES = """
const all = (query, inside = document) => [...inside.querySelectorAll(query)];
const said = cell => cell.textContent.trim(), key = cell => cell.dataset.n ?? cell.dataset.key ?? said(cell);
for (const button of all(".table th button")) button.addEventListener("click", () => {
  const head = button.closest("th"), body = head.closest("table").tBodies[0];
  const column = [...head.parentNode.children].indexOf(head), up = head.getAttribute("aria-sort") !== "ascending";
  for (const other of head.parentNode.children) other.removeAttribute("aria-sort");
  head.setAttribute("aria-sort", up ? "ascending" : "descending");
  const rows = [...body.rows].map(row => ({row, key: key(row.cells[column]), empty: !said(row.cells[column])}));
  const text = rows.some(one => !one.empty && isNaN(Number(one.key)));
  const order = (a, b) => text ? a.key.localeCompare(b.key, undefined, {numeric: true}) : a.key - b.key;
  rows.sort((a, b) => a.empty - b.empty || (up ? 1 : -1) * order(a, b));
  body.append(...rows.map(one => one.row));
});
for (const box of all("input.filter")) box.addEventListener("input", () => {
  const wanted = box.value.toLowerCase();
  for (const row of box.closest(".table").querySelector("table").tBodies[0].rows)
    row.hidden = !row.textContent.toLowerCase().includes(wanted);
});
"""

# The same rows as `tables.csv_rows`; a picture is the figure in the colours that it has on the screen, legend included.
SAVING = """
const quoted = text => /[",\\n]/.test(text) ? '"' + text.replaceAll('"', '""') + '"' : text;
function csv(table) {
  const rows = [...table.tBodies[0].rows], heads = [...table.tHead.rows[0].cells].map(said);
  const more = cell => JSON.parse(cell.dataset.more ?? "{}");
  const value = cell => said(cell) ? cell.dataset.n ?? said(cell) : "";
  const extra = heads.map((_, i) => [...new Set(rows.flatMap(row => Object.keys(more(row.cells[i]))))]);
  const lines = rows.map(row => heads.flatMap((_, i) => {
    const found = more(row.cells[i]);
    return [value(row.cells[i]), ...extra[i].map(name => found[name] ?? "")];
  }));
  return [heads.flatMap((head, i) => [head, ...extra[i].map(name => head + " " + name)]), ...lines]
    .map(line => line.map(quoted).join(",") + "\\r\\n").join("");
}
const KEPT = ["fill", "stroke", "stroke-width", "stroke-dasharray", "stroke-linecap", "stroke-linejoin", "opacity",
  "font-size", "font-family", "paint-order"];
function styled(from) {
  const copy = from.cloneNode(true), pairs = [[from, copy], ...all("*", from).map((e, i) => [e, all("*", copy)[i]])];
  for (const [real, drawn] of pairs) {
    const style = getComputedStyle(real);
    drawn.setAttribute("style", KEPT.map(name => `${name}:${style.getPropertyValue(name)}`).join(";"));
    for (const name of ["class", "data-k"]) drawn.removeAttribute(name);
  }
  return copy;
}
function picture(figure) {
  const copy = styled(figure.querySelector("svg.plot")), make = tag => document.createElementNS(copy.namespaceURI, tag);
  const text = (x, y, words, size, ink) => Object.entries({x, y, style: `font:${size}px sans-serif;fill:${ink}`}).reduce(
    (made, [name, value]) => (made.setAttribute(name, value), made), Object.assign(make("text"), {textContent: words}));
  const ink = getComputedStyle(document.body).color;
  const keys = figure.querySelector(".legend") ?? figure.closest("section").querySelector(":scope > .legend");
  const items = keys ? all("li", keys).filter(item => item.querySelector("svg")) : [];
  const body = make("g"), back = make("rect");
  body.setAttribute("transform", "translate(0 26)");
  body.append(...copy.childNodes);
  let x = 12, y = 332;
  const legend = items.flatMap(item => {
    const name = said(item), width = 26 + 6.3 * name.length;
    if (x + width > 396 && x > 12) { x = 12; y += 18; }
    const mark = make("g");
    mark.setAttribute("transform", `translate(${x + 6} ${y - 4})`);
    mark.append(...styled(item.querySelector("svg")).childNodes);
    const made = [mark, text(x + 17, y, name, 11, ink)];
    x += width;
    return made;
  });
  const height = items.length ? y + 12 : 320;
  for (const [name, value] of Object.entries({xmlns: copy.namespaceURI, width: 800, height: 2 * height,
    viewBox: `0 0 400 ${height}`})) copy.setAttribute(name, value);
  for (const [name, value] of Object.entries({width: 400, height, fill: getComputedStyle(document.body).backgroundColor}))
    back.setAttribute(name, value);
  copy.replaceChildren(back, text(12, 19, said(figure.querySelector("strong")), 14, ink), body, ...legend);
  return new XMLSerializer().serializeToString(copy);
}
function png(figure) {
  return new Promise((done, fail) => {
    const image = new Image();
    image.onload = () => {
      const canvas = Object.assign(document.createElement("canvas"), {width: 2 * image.width, height: 2 * image.height});
      canvas.getContext("2d").drawImage(image, 0, 0, canvas.width, canvas.height);
      canvas.toBlob(done, "image/png");
    };
    image.onerror = fail;
    image.src = "data:image/svg+xml;charset=utf-8," + encodeURIComponent(picture(figure));
  });
}
function save(name, blob) {
  const link = Object.assign(document.createElement("a"), {href: URL.createObjectURL(blob), download: name});
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 10000);
}
for (const button of all("button.get")) button.addEventListener("click", async () => {
  const figure = button.closest("figure"), kind = button.dataset.get;
  if (kind === "csv") {
    const text = csv(button.closest(".table").querySelector("table"));
    return save(button.dataset.name + ".csv", new Blob([text], {type: "text/csv"}));
  }
  const blob = kind === "png" ? await png(figure) : new Blob([picture(figure)], {type: "image/svg+xml"});
  save(figure.dataset.name + "." + kind, blob);
});
"""

LEGENDS = """
for (const button of all(".legend button")) button.addEventListener("click", () => {
  const list = button.closest(".legend"), own = list.closest("figure"), on = button.getAttribute("aria-pressed") !== "true";
  for (const other of all("button", list)) other.setAttribute("aria-pressed", other === button && on);
  const figures = own ? [own] : all("figure", list.closest("section")).filter(one => !one.querySelector(".legend"));
  for (const mark of figures.flatMap(figure => all("[data-k]", figure)))
    mark.classList.toggle("off", on && mark.dataset.k !== button.dataset.k);
});
"""

SCRIPT = TABLES + SAVING + LEGENDS
