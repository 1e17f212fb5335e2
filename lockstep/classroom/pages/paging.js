'use strict';

// A table that shows a slice of its rows at a time and sorts them by the buttons in its header. However many rows
// there are, only one slice of them is in the page; a print gets them all.

const collator = new Intl.Collator(undefined, { numeric: true, sensitivity: 'base' });

function element(name, properties, ...children) {
  const made = Object.assign(document.createElement(name), properties);
  made.append(...children);
  return made;
}

function number(value) {
  return value.toLocaleString('en');
}

// Rows without a value come last, whichever way the others are sorted.
function compared(a, b, direction) {
  if (a === null || b === null || a === '' || b === '') {
    return (a === null || a === '' ? 1 : 0) - (b === null || b === '' ? 1 : 0);
  }
  return direction * (typeof a === 'number' ? a - b : collator.compare(a, b));
}

function pagedTable({ name, noun, nouns, size, draw, keys, sorted }) {
  const table = document.getElementById(`${name}-table`);
  const body = table.tBodies[0];
  const pager = document.getElementById(`${name}-pager`);
  const told = pager.querySelector('[role=status]');
  const [previous, next] = pager.querySelectorAll('button');
  const buttons = [...table.tHead.querySelectorAll('button')];
  let rows = [];
  let page = 0;
  let order = null;

  function fill(from, to) {
    body.replaceChildren(...rows.slice(from, to).map(draw));
  }

  function show() {
    const pages = Math.max(1, Math.ceil(rows.length / size));
    page = Math.min(Math.max(page, 0), pages - 1);
    const from = page * size;
    const to = Math.min(from + size, rows.length);
    fill(from, to);
    told.textContent = rows.length <= size
      ? `${number(rows.length)} ${rows.length === 1 ? noun : nouns}`
      : `${number(from + 1)} to ${number(to)} of ${number(rows.length)} ${nouns}`;
    previous.hidden = next.hidden = pages === 1;
    // A button that is taken away under the finger would drop the keyboard's place.
    previous.setAttribute('aria-disabled', page === 0);
    next.setAttribute('aria-disabled', page === pages - 1);
  }

  function sort() {
    if (order === null) return;
    const of = keys[order.key];
    const values = new Map(rows.map((row) => [row, of(row)]));
    rows.sort((a, b) => compared(values.get(a), values.get(b), order.direction) || a.place - b.place);
  }

  function mark() {
    for (const button of buttons) {
      const heading = button.parentElement;
      if (order !== null && button.dataset.key === order.key) {
        heading.setAttribute('aria-sort', order.direction > 0 ? 'ascending' : 'descending');
      } else {
        heading.removeAttribute('aria-sort');
      }
    }
  }

  function setOrder(key, direction) {
    order = Object.hasOwn(keys, key) ? { key, direction } : null;
    page = 0;
    sort();
    mark();
    show();
  }

  table.tHead.addEventListener('click', (event) => {
    const button = event.target.closest('button');
    if (button === null) return;
    const { key, first } = button.dataset;
    const again = order !== null && order.key === key;
    setOrder(key, again ? -order.direction : first === 'desc' ? -1 : 1);
    if (sorted) sorted();
  });

  pager.addEventListener('click', (event) => {
    const button = event.target.closest('button');
    if (button === null || button.getAttribute('aria-disabled') === 'true') return;
    page += Number(button.dataset.page);
    show();
    table.parentElement.scrollTop = 0;
  });

  window.addEventListener('beforeprint', () => fill(0, rows.length));
  window.addEventListener('afterprint', show);

  return {
    setRows(given) {
      rows = [...given];
      page = 0;
      sort();
      show();
    },
    setOrder,
    get order() { return order; },
    get rows() { return rows; },
  };
}
