// What the page does besides the explorer: tables sort and filter, figures and tables are saved, a legend singles out an arm.

const all = (query, inside = document) => [...inside.querySelectorAll(query)];
const shownText = cell => cell.textContent.trim();
const sortKey = cell => cell.dataset.n ?? cell.dataset.key ?? shownText(cell);

for (const button of all(".table th button")) button.addEventListener("click", () => {
  const head = button.closest("th"), body = head.closest("table").tBodies[0];
  const column = [...head.parentNode.children].indexOf(head), up = head.getAttribute("aria-sort") !== "ascending";
  for (const other of head.parentNode.children) other.removeAttribute("aria-sort");
  head.setAttribute("aria-sort", up ? "ascending" : "descending");
  const rows = [...body.rows].map(row => {
    const cell = row.cells[column];
    return {row, key: sortKey(cell), empty: !shownText(cell)};
  });
  const text = rows.some(({key, empty}) => !empty && isNaN(Number(key)));
  const order = (a, b) => text ? a.key.localeCompare(b.key, undefined, {numeric: true}) : a.key - b.key;
  rows.sort((a, b) => a.empty - b.empty || (up ? 1 : -1) * order(a, b));
  body.append(...rows.map(({row}) => row));
});

for (const box of all("input.filter")) box.addEventListener("input", () => {
  const words = box.value.toLowerCase();
  for (const row of box.closest(".table").querySelector("table").tBodies[0].rows)
    row.hidden = !row.textContent.toLowerCase().includes(words);
});

// A table as CSV: the same rows as tables.csv_rows writes in Python.
function csv(table) {
  const rows = [...table.tBodies[0].rows], heads = [...table.tHead.rows[0].cells].map(shownText);
  const quoted = text => /[",\n]/.test(text) ? '"' + text.replaceAll('"', '""') + '"' : text;
  const more = cell => JSON.parse(cell.dataset.more ?? "{}");
  const value = cell => shownText(cell) ? cell.dataset.n ?? shownText(cell) : "";
  const extra = heads.map((_, i) => [...new Set(rows.flatMap(row => Object.keys(more(row.cells[i]))))]);
  const lines = rows.map(row => heads.flatMap((_, i) => {
    const numbers = more(row.cells[i]);
    return [value(row.cells[i]), ...extra[i].map(name => numbers[name] ?? "")];
  }));
  return [heads.flatMap((head, i) => [head, ...extra[i].map(name => head + " " + name)]), ...lines]
    .map(line => line.map(quoted).join(",") + "\r\n").join("");
}

// A copy of an SVG element with the colours that it has on the screen written into it.
const STYLES = ["fill", "stroke", "stroke-width", "stroke-dasharray", "stroke-linecap", "stroke-linejoin", "opacity",
  "font-size", "font-family", "paint-order"];
function styled(from) {
  const copy = from.cloneNode(true), pairs = [[from, copy], ...all("*", from).map((e, i) => [e, all("*", copy)[i]])];
  for (const [real, drawn] of pairs) {
    const style = getComputedStyle(real);
    drawn.setAttribute("style", STYLES.map(name => `${name}:${style.getPropertyValue(name)}`).join(";"));
    for (const name of ["class", "data-k"]) drawn.removeAttribute(name);
  }
  return copy;
}

// A figure as the text of an SVG file: title above, legend below, laid out as svg.standalone does it in Python.
function picture(figure) {
  const {width, height, title_height, legend_row, letter} = SETTINGS.figure;
  const copy = styled(figure.querySelector("svg.plot")), ink = getComputedStyle(document.body).color;
  const make = (tag, attributes) => {
    const part = document.createElementNS(copy.namespaceURI, tag);
    for (const [name, value] of Object.entries(attributes)) part.setAttribute(name, value);
    return part;
  };
  const text = (x, y, words, size) => {
    const part = make("text", {x, y, style: `font:${size}px sans-serif;fill:${ink}`});
    part.textContent = words;
    return part;
  };
  const keys = figure.querySelector(".legend") ?? figure.closest("section").querySelector(":scope > .legend");
  const items = keys ? all("li", keys).filter(item => item.querySelector("svg")) : [];
  let x = 12, y = title_height + height + legend_row;
  const legend = items.flatMap(item => {
    const name = shownText(item), wide = 26 + letter * name.length;
    if (x + wide > width - 4 && x > 12) { x = 12; y += legend_row; }
    const mark = make("g", {transform: `translate(${x + 6} ${y - 4})`}), label = text(x + 17, y, name, 11);
    mark.append(...styled(item.querySelector("svg")).childNodes);
    x += wide;
    return [mark, label];
  });
  const bottom = items.length ? y + 12 : y;
  const body = make("g", {transform: `translate(0 ${title_height})`});
  body.append(...copy.childNodes);
  for (const [name, value] of Object.entries({xmlns: copy.namespaceURI, width: 2 * width, height: 2 * bottom,
    viewBox: `0 0 ${width} ${bottom}`})) copy.setAttribute(name, value);
  const back = make("rect", {width, height: bottom, fill: getComputedStyle(document.body).backgroundColor});
  copy.replaceChildren(back, text(12, 19, shownText(figure.querySelector("strong")), 14), body, ...legend);
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

for (const button of all(".legend button")) button.addEventListener("click", () => {
  const list = button.closest(".legend"), own = list.closest("figure"), on = button.getAttribute("aria-pressed") !== "true";
  for (const other of all("button", list)) other.setAttribute("aria-pressed", other === button && on);
  const figures = own ? [own] : all("figure", list.closest("section")).filter(one => !one.querySelector(".legend"));
  for (const mark of figures.flatMap(figure => all("[data-k]", figure)))
    mark.classList.toggle("off", on && mark.dataset.k !== button.dataset.k);
});
