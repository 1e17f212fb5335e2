// The class page: the students' table, its filters, the flags, and what was not graded. Texts come from students
// and are only ever set as text, never as markup.

const data = JSON.parse(document.getElementById('data').textContent);

const symbols = data.symbols.map(([code, name, sign, word]) => ({ code, name, sign, word }));
const checks = data.exercises.flatMap(([exercise, , names]) => names.map((check) => `${exercise}/${check}`));
const passing = new Set(['p', '.']);

// Searching finds Zoë where somebody types zoe.
function plain(text) {
  return text.normalize('NFD').replace(/\p{Mn}/gu, '').toLowerCase();
}

const students = data.students.map(
  ([name, id, email, team, slug, status, final, penalty, late, points, codes], place) => ({
    place, name, id, email, team, status, final, penalty, late, points, codes,
    address: `students/${encodeURIComponent(slug)}/index.html`,
    text: plain([name, id, email, team].join('\n')),
    kinds: [],
  }),
);
for (const [place, kind] of data.flags) {
  if (!students[place].kinds.includes(kind)) students[place].kinds.push(kind);
}

function link({ name, address }) {
  return element('a', { href: address }, element('bdi', { textContent: name }));
}

function small(text) {
  return element('span', { className: 'small', dir: 'auto', textContent: text });
}

// Points and, below them, how large a part of the best in class they are.
const most = data.exercises.map((_, place) => students.reduce((high, { points }) => Math.max(high, points[place] || 0), 0));

function pointsCell(value, whole) {
  const cell = element('td', { className: 'number' });
  if (value === null) return cell;
  cell.append(String(value));
  if (whole > 0) {
    const bar = element('span', { className: 'under' });
    bar.style.width = `${Math.min(Math.max(value / whole, 0), 1) * 100}%`;
    cell.append(bar);
  }
  return cell;
}

function studentRow(student) {
  const name = element('th', { scope: 'row' }, link(student));
  if (student.id !== student.name) name.append(small(student.id));
  const late = element('td', { className: 'number' });
  if (student.late) {
    late.append(`${student.late} d`);
    if (student.penalty) late.append(small(`−${student.penalty}`));
  }
  const status = element('td', { className: student.status === 0 ? 'word graded' : 'word' }, data.statuses[student.status]);
  if (data.problems[student.place] !== undefined) status.append(small(data.problems[student.place]));
  return element(
    'tr', {}, name,
    element('td', { className: 'number strong', textContent: student.final === null ? '' : student.final }),
    late, status,
    element('td', { className: 'word', textContent: student.kinds.map((kind) => data.kinds[kind]).join(', ') }),
    ...student.points.map((value, place) => pointsCell(value, most[place])),
    element('td', { dir: 'auto', textContent: student.team }),
  );
}

const table = pagedTable({
  name: 'students', noun: 'student', nouns: 'students', size: 100, draw: studentRow, sorted: refresh,
  keys: {
    name: (student) => student.name,
    final: (student) => student.final,
    late: (student) => student.late || null,
    status: (student) => student.status,
    flags: (student) => student.kinds.length || null,
    team: (student) => student.team,
    ...Object.fromEntries(data.exercises.map((_, place) => [place, (student) => student.points[place]])),
  },
});

if (data.flags.length) {
  const flags = pagedTable({
    name: 'flags', noun: 'flag', nouns: 'flags', size: 50,
    draw: ({ kind, student, subject, detail, others }) => element(
      'tr', {},
      element('th', { scope: 'row', textContent: data.kinds[kind] }),
      element('td', {}, link(student)),
      element('td', { dir: 'auto', textContent: subject }),
      element('td', { className: 'long', dir: 'auto', textContent: detail }),
      element('td', {}, ...others.flatMap((other, place) => [...(place ? [', '] : []), link(other)])),
    ),
    keys: {
      kind: ({ kind }) => kind,
      student: ({ student }) => student.name,
      subject: ({ subject }) => subject,
    },
  });
  flags.setRows(data.flags.map(([student, kind, subject, detail, others], place) => ({
    place, kind, subject, detail, student: students[student], others: others.map((other) => students[other]),
  })));
  flags.setOrder('kind', 1);
}

if (data.unmatched.length) {
  pagedTable({
    name: 'unmatched', noun: 'file', nouns: 'files', size: 50,
    draw: ({ label, reason }) => element(
      'tr', {},
      element('th', { scope: 'row', dir: 'auto', textContent: label }),
      element('td', { dir: 'auto', textContent: reason }),
    ),
    keys: { label: ({ label }) => label, reason: ({ reason }) => reason },
  }).setRows(data.unmatched.map(([label, reason], place) => ({ place, label, reason })));
}

const controls = Object.fromEntries(
  ['search', 'status', 'flag', 'check', 'late'].map((name) => [name, document.getElementById(name)]),
);
data.kinds.forEach((kind, place) => {
  const count = students.filter(({ kinds }) => kinds.includes(place)).length;
  controls.flag.append(new Option(`${kind} (${number(count)})`, kind));
});
data.exercises.forEach(([exercise, , names]) => {
  const group = element('optgroup', { label: exercise });
  group.append(...names.map((check) => new Option(check, `${exercise}/${check}`)));
  controls.check.append(group);
});

const order = document.getElementById('order');
const heat = checks.length ? heatMap({ symbols, exercises: data.exercises, open: ({ address }) => { location.href = address; } }) : null;

function chosen() {
  const words = plain(controls.search.value).split(/\s+/).filter(Boolean);
  const status = controls.status.value === '' ? null : Number(controls.status.value);
  const flag = controls.flag.value;
  const kind = data.kinds.indexOf(flag);
  const check = checks.indexOf(controls.check.value);
  return students.filter((student) => words.every((word) => student.text.includes(word))
    && (status === null || student.status === status)
    && (flag === '' || (flag === 'any' ? student.kinds.length > 0 : student.kinds.includes(kind)))
    && (check < 0 || !passing.has(student.codes[check]))
    && (!controls.late.checked || student.penalty > 0));
}

// The address holds what is shown, so that whoever comes back from a student finds it again.
let writing;
function writeAddress() {
  clearTimeout(writing);
  writing = setTimeout(() => {
    const words = new URLSearchParams();
    for (const [name, control] of Object.entries(controls)) {
      const value = control.type === 'checkbox' ? (control.checked ? '1' : '') : control.value;
      if (value) words.set(name, value);
    }
    if (table.order.key !== 'name' || table.order.direction < 0) {
      words.set('sort', `${table.order.direction < 0 ? '-' : ''}${table.order.key}`);
    }
    history.replaceState(null, '', `#${words}`);
  }, 200);
}

function refreshHeat() {
  if (heat === null) return;
  const shown = table.rows.filter(({ final }) => final !== null);
  heat.setStudents(order.value === 'final' ? shown.sort((a, b) => b.final - a.final) : shown);
}

function refresh() {
  refreshHeat();
  writeAddress();
}

function filter() {
  table.setRows(chosen());
  refresh();
}

function readAddress() {
  const words = new URLSearchParams(location.hash.slice(1));
  for (const [name, control] of Object.entries(controls)) {
    if (control.type === 'checkbox') control.checked = words.has(name);
    else control.value = words.get(name) || '';
    // A select may have no such choice any more.
    if (control.selectedIndex === -1) control.value = '';
  }
  const sort = words.get('sort') || 'name';
  table.setRows(chosen());
  table.setOrder(sort.replace(/^-/, ''), sort.startsWith('-') ? -1 : 1);
  if (table.order === null) table.setOrder('name', 1);
  refreshHeat();
}

const form = document.getElementById('filters');
form.addEventListener('input', filter);
form.addEventListener('submit', (event) => event.preventDefault());
// The controls still hold what they had while a reset is announced.
form.addEventListener('reset', () => setTimeout(filter));
order.form.addEventListener('submit', (event) => event.preventDefault());
order.addEventListener('change', refreshHeat);
window.addEventListener('hashchange', () => {
  // Other addresses are places in the page.
  if (!location.hash.includes('=')) return;
  readAddress();
  document.getElementById('students').focus();
});
readAddress();
