// The heat map: rows are checks, columns students. Drawn on a canvas as wide as its window, however many students
// there are; where a pixel has to stand for several of them, it has the mean of their colours.

const ROW = 14;
const HEAD = 24;
const SIGN_FROM = 10;

function heatMap({ symbols, exercises, open }) {
  const canvas = document.getElementById('heat-map');
  const space = document.getElementById('heat-space');
  const scroll = document.getElementById('heat-scroll');
  const labels = document.getElementById('heat-labels');
  const readout = document.getElementById('readout');
  const zoom = document.getElementById('zoom');
  const paper = canvas.getContext('2d', { alpha: false });
  const words = new Map([['.', 'not made'], ...symbols.map(({ code, word }) => [code, word])]);
  // A map full of ticks says less than one of what went wrong.
  const signs = new Map(symbols.filter(({ code }) => code !== 'p').map(({ code, sign }) => [code, sign]));
  const rows = [];
  let height = 0;
  let students = [];
  let cursor = null;
  let colours = {};

  exercises.forEach(([exercise, title, checks]) => {
    labels.append(element('p', { className: 'exercise', textContent: title || exercise }));
    height += HEAD;
    checks.forEach((check) => {
      labels.append(element('p', { textContent: check }));
      rows.push({ exercise, check, top: height, place: rows.length });
      height += ROW;
    });
  });

  // Only a property that takes a colour says which of a pair is meant, in the light or in the dark.
  function readColours() {
    const probe = labels.appendChild(document.createElement('i'));
    const parsed = (name) => {
      probe.style.color = `var(--${name})`;
      return getComputedStyle(probe).color.match(/\d+/g).map(Number);
    };
    colours = { '.': parsed('heat-absent'), paper: parsed('page'), ink: parsed('text') };
    for (const { code, name } of symbols) colours[code] = parsed(`heat-${name}`);
    probe.remove();
  }

  // Columns are pixels where students are narrower than one, otherwise students.
  function layout() {
    const width = scroll.clientWidth;
    const wanted = Number(zoom.value);
    const each = wanted || Math.min(28, width / Math.max(students.length, 1));
    return { width, each, columns: each < 1 ? width : students.length, step: Math.max(each, 1) };
  }

  function members(column, { each }) {
    if (each >= 1) return [column, Math.min(column + 1, students.length)];
    const from = Math.floor(column / each);
    return [from, Math.max(from + 1, Math.min(Math.floor((column + 1) / each), students.length))];
  }

  function css([red, green, blue]) {
    return `rgb(${red} ${green} ${blue})`;
  }

  // One pixel for each column and check; stretched to its size below, which is far quicker than as many rectangles.
  function pixels(first, last, frame) {
    const image = new ImageData(last - first, rows.length);
    for (let column = first; column < last; column += 1) {
      const [from, to] = members(column, frame);
      for (let row = 0; row < rows.length; row += 1) {
        let red = 0;
        let green = 0;
        let blue = 0;
        for (let place = from; place < to; place += 1) {
          const colour = colours[students[place].codes[row]];
          red += colour[0];
          green += colour[1];
          blue += colour[2];
        }
        image.data.set([red / (to - from), green / (to - from), blue / (to - from), 255], (row * (last - first) + column - first) * 4);
      }
    }
    return image;
  }

  function draw() {
    const frame = layout();
    const { width, each, columns, step } = frame;
    const scale = window.devicePixelRatio || 1;
    space.style.width = `${Math.max(width, Math.ceil(columns * step))}px`;
    space.style.height = `${height}px`;
    canvas.width = Math.round(width * scale);
    canvas.height = Math.round(height * scale);
    canvas.style.width = `${width}px`;
    canvas.style.height = `${height}px`;
    paper.setTransform(scale, 0, 0, scale, 0, 0);
    paper.fillStyle = css(colours.paper);
    paper.fillRect(0, 0, width, height);
    const left = scroll.scrollLeft;
    const first = Math.max(0, Math.floor(left / step));
    const last = Math.min(columns, Math.ceil((left + width) / step));
    if (first >= last || rows.length === 0) return;
    const small = new OffscreenCanvas(last - first, rows.length);
    small.getContext('2d').putImageData(pixels(first, last, frame), 0, 0);
    paper.imageSmoothingEnabled = false;
    const x = first * step - left;
    const wide = (last - first) * step;
    for (const { top, place } of rows) paper.drawImage(small, 0, place, last - first, 1, x, top, wide, ROW - 1);
    if (step >= 6) {
      for (let column = first + 1; column <= last; column += 1) paper.fillRect(Math.round(column * step - left) - 1, 0, 1, height);
    }
    if (each >= SIGN_FROM) {
      paper.fillStyle = css(colours.ink);
      paper.font = `${ROW - 4}px sans-serif`;
      paper.textAlign = 'center';
      paper.textBaseline = 'middle';
      for (let column = first; column < last; column += 1) {
        for (const { top, place } of rows) {
          const sign = signs.get(students[column].codes[place]);
          if (sign) paper.fillText(sign, (column + 0.5) * step - left, top + ROW / 2);
        }
      }
    }
    if (cursor !== null && cursor.column >= first && cursor.column < last) {
      paper.strokeStyle = css(colours.ink);
      paper.lineWidth = 2;
      paper.strokeRect(Math.round(cursor.column * step - left) - 1, rows[cursor.row].top - 1, Math.max(step, 3) + 1, ROW + 1);
    }
  }

  let asked = false;
  function redraw() {
    if (asked) return;
    asked = true;
    requestAnimationFrame(() => {
      asked = false;
      draw();
    });
  }

  function tell() {
    if (cursor === null || students.length === 0) return;
    const { exercise, check, place } = rows[cursor.row];
    const [from, to] = members(cursor.column, layout());
    let seen;
    if (to - from === 1) {
      seen = `${students[from].name}: ${words.get(students[from].codes[place])}`;
    } else {
      const counts = new Map();
      for (const { codes } of students.slice(from, to)) {
        counts.set(codes[place], (counts.get(codes[place]) || 0) + 1);
      }
      const parts = [...counts].sort((a, b) => b[1] - a[1]).map(([code, count]) => `${number(count)} ${words.get(code)}`);
      seen = `students ${number(from + 1)} to ${number(to)} of ${number(students.length)}: ${parts.join(', ')}`;
    }
    readout.textContent = `${exercise} / ${check} · ${seen}`;
  }

  function moveTo(column, row) {
    const { columns, step, width } = layout();
    if (columns === 0) return;
    cursor = {
      column: Math.min(Math.max(column, 0), columns - 1),
      row: Math.min(Math.max(row, 0), rows.length - 1),
    };
    const x = cursor.column * step;
    if (x < scroll.scrollLeft) scroll.scrollLeft = x;
    if (x + step > scroll.scrollLeft + width) scroll.scrollLeft = x + step - width;
    tell();
    redraw();
  }

  function under(event) {
    const box = canvas.getBoundingClientRect();
    const y = event.clientY - box.top;
    const row = rows.find(({ top }) => y >= top && y < top + ROW);
    const column = Math.floor((event.clientX - box.left + scroll.scrollLeft) / layout().step);
    return row === undefined || column >= layout().columns ? null : { column, row: row.place };
  }

  // One student opens; of many, those around the place come closer.
  function enter() {
    if (cursor === null || students.length === 0) return;
    const [from, to] = members(cursor.column, layout());
    if (to - from === 1) {
      open(students[from]);
      return;
    }
    zoom.value = '14';
    draw();
    const { row } = cursor;
    scroll.scrollLeft = from * 14 - scroll.clientWidth / 2;
    moveTo(from, row);
  }

  canvas.addEventListener('mousemove', (event) => {
    const found = under(event);
    if (found !== null && (cursor === null || found.column !== cursor.column || found.row !== cursor.row)) {
      cursor = found;
      tell();
      redraw();
    }
  });
  canvas.addEventListener('click', (event) => {
    cursor = under(event);
    enter();
  });
  canvas.addEventListener('keydown', (event) => {
    const { column, row } = cursor || { column: 0, row: 0 };
    const many = Math.max(1, Math.floor(layout().columns / 10));
    const moves = {
      ArrowLeft: [column - 1, row],
      ArrowRight: [column + 1, row],
      ArrowUp: [column, row - 1],
      ArrowDown: [column, row + 1],
      PageUp: [column - many, row],
      PageDown: [column + many, row],
      Home: [0, row],
      End: [Infinity, row],
    };
    if (event.key === 'Enter') enter();
    else if (Object.hasOwn(moves, event.key)) moveTo(...(cursor === null ? [0, 0] : moves[event.key]));
    else return;
    event.preventDefault();
  });
  scroll.addEventListener('scroll', redraw);
  zoom.addEventListener('change', () => {
    cursor = null;
    scroll.scrollLeft = 0;
    redraw();
  });
  new ResizeObserver(redraw).observe(scroll);
  matchMedia('(prefers-color-scheme: dark)').addEventListener('change', () => {
    readColours();
    redraw();
  });
  const paint = (scheme) => {
    document.documentElement.style.colorScheme = scheme;
    readColours();
    draw();
  };
  window.addEventListener('beforeprint', () => paint('light'));
  window.addEventListener('afterprint', () => paint(''));
  readColours();

  return {
    setStudents(given) {
      students = given;
      cursor = null;
      redraw();
    },
  };
}
