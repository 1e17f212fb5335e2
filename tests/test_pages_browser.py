"""The pages in a real browser: sorting, filtering, links, keyboard, phone, paper, and whoever cannot see them."""

from __future__ import annotations

import random
import re
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from urllib.parse import unquote

import axe_playwright_python
import pytest
from playwright.sync_api import Browser, Page, expect

from fixtures.browser import NoBrowser, open_browser
from fixtures.records import make_records, titles
from lockstep.classroom.handin import Unmatched
from lockstep.classroom.pages.render import Pages
from lockstep.classroom.pages.write import write_pages
from lockstep.classroom.people import Student
from lockstep.classroom.record import Record
from lockstep.classroom.slug import slugs
from tests.small_class import CATALOGUE, CLASS, HOSTILE, ddp, hostile_class, record

AXE = (Path(axe_playwright_python.__file__).parent / "axe.min.js").read_text(encoding="utf-8")
RULES = ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa", "best-practice"]
STRAYS = (Unmatched("homework (3).zip", "No student of that name is on the roster."),)
WIDE, PHONE = {"width": 1280, "height": 900}, {"width": 360, "height": 740}


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    try:
        with open_browser() as browser:
            yield browser
    except NoBrowser as error:
        pytest.fail(str(error))


@pytest.fixture(scope="module")
def results(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A small class and, beside it, one whose every text is an attack."""
    folder = tmp_path_factory.mktemp("results")
    write_pages(CLASS, CATALOGUE, STRAYS, slugs(CLASS), folder / "class", "Autumn")
    hostile = hostile_class()
    strays = tuple(Unmatched(text, text) for text in HOSTILE)
    write_pages(hostile, CATALOGUE, strays, slugs(hostile), folder / "hostile", HOSTILE[1])
    return folder


class Watched:
    """A page, everything it asked for, and everything it complained about."""

    def __init__(self, page: Page) -> None:
        self.page = page
        self.requests: list[str] = []
        self.complaints: list[str] = []
        page.on("request", lambda request: self.requests.append(request.url))
        page.on("console", lambda message: self.complaints.append(message.text))
        page.on("pageerror", lambda error: self.complaints.append(str(error)))
        page.on("dialog", lambda dialog: self.complaints.append(dialog.message))

    def open(self, path: Path) -> Page:
        self.page.goto(path.as_uri())
        return self.page


@pytest.fixture
def watched(browser: Browser) -> Iterator[Watched]:
    """A fresh page of a fresh profile. At the end nothing was asked for but files, and nothing went wrong."""
    context = browser.new_context(viewport=WIDE)  # type: ignore[arg-type]
    try:
        watched = Watched(context.new_page())
        watched.page.set_default_timeout(60_000)
        yield watched
        assert watched.complaints == []
        assert [address for address in watched.requests if not address.startswith("file:")] == []
    finally:
        context.close()


def names(page: Page) -> list[str]:
    return page.locator("#students-table tbody th a").all_inner_texts()


def told(page: Page) -> str:
    return page.locator("#students-pager [role=status]").inner_text()


def overflows(page: Page) -> bool:
    return bool(page.evaluate("document.documentElement.scrollWidth > document.documentElement.clientWidth"))


def test_without_a_browser_there_is_a_sentence_on_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("shutil.which", lambda name: None)
    with pytest.raises(NoBrowser, match="apt-get install chromium"), open_browser():
        pass


def test_the_class_opens_with_one_request(watched: Watched, results: Path) -> None:
    page = watched.open(results / "class" / "index.html")
    assert names(page) == ["Ada Adams", "Ben Berg", "Kim Kaputt", "Mia Missing", "Zoë Żółć"]
    assert told(page) == "5 students"
    assert len(watched.requests) == 1
    row = page.locator("#students-table tbody tr").first.locator("th, td").all_inner_texts()
    assert [" ".join(cell.split()) for cell in row] == [
        "Ada Adams a1", "6.4", "1.5 d −1.6", "graded", "similar code", "5", "3", "blue",
    ]  # fmt: skip


def test_headers_sort_both_ways_and_leave_the_empty_last(watched: Watched, results: Path) -> None:
    page = watched.open(results / "class" / "index.html")
    final = page.get_by_role("button", name="Final")
    final.click()
    assert names(page) == ["Ada Adams", "Ben Berg", "Zoë Żółć", "Kim Kaputt", "Mia Missing"]
    assert final.locator("..").get_attribute("aria-sort") == "descending"
    final.click()
    assert names(page) == ["Zoë Żółć", "Ben Berg", "Ada Adams", "Kim Kaputt", "Mia Missing"]
    assert (
        page.locator("[aria-sort]:visible").evaluate_all("all => all.map((one) => one.innerText.trim())")[0]
        == "Final"
    )
    page.get_by_role("button", name="Student").first.click()
    assert final.locator("..").get_attribute("aria-sort") is None
    page.get_by_role("button", name="ddp_train").click()
    assert names(page)[:3] == ["Ada Adams", "Ben Berg", "Zoë Żółć"]


@pytest.mark.parametrize(
    ("typed", "found"),
    [
        ("zoe zolc", []),
        ("zoe", ["Zoë Żółć"]),
        ("ŻÓŁĆ", ["Zoë Żółć"]),
        ("b1", ["Ben Berg"]),
        ("MIA@", []),
        ("ben@example", ["Ben Berg"]),
        ("blue", ["Ada Adams"]),
        ("a ad", ["Ada Adams"]),
        ("<b>", []),
    ],
)
def test_search_goes_by_name_id_address_and_team(
    watched: Watched, results: Path, typed: str, found: list[str]
) -> None:
    page = watched.open(results / "class" / "index.html")
    page.get_by_label("Search").fill(typed)
    assert names(page) == found
    assert told(page) == f"{len(found)} {'student' if len(found) == 1 else 'students'}"


def test_filters_narrow_each_other_and_are_taken_back(watched: Watched, results: Path) -> None:
    page = watched.open(results / "class" / "index.html")
    page.get_by_label("Status").select_option(label="handed in nothing (1)")
    assert names(page) == ["Mia Missing"]
    page.get_by_role("button", name="Show all").click()
    expect(page.locator("#students-table tbody tr")).to_have_count(5)
    page.get_by_label("Flag", exact=True).select_option("similar code")
    assert names(page) == ["Ada Adams", "Zoë Żółć"]
    page.get_by_label("Check not passed").select_option("ddp_train/cleans_up")
    assert names(page) == ["Zoë Żółć"]
    page.get_by_label("late").check()
    assert names(page) == []
    assert told(page) == "0 students"


def test_figures_and_checks_lead_to_their_students(watched: Watched, results: Path) -> None:
    page = watched.open(results / "class" / "index.html")
    page.locator(".tile", has_text="Could not be graded").get_by_role("link").click()
    expect(page.locator("#students-table tbody tr")).to_have_count(1)
    assert names(page) == ["Kim Kaputt"]
    assert page.evaluate("document.activeElement.id") == "students"
    page.get_by_role("link", name="crashed or hung").click()
    expect(page.locator("#students-table tbody a")).to_have_text(["Zoë Żółć"])
    page.locator(".tallies").first.get_by_role("link", name="ddp_train / reshuffles").click()
    expect(page.locator("#students-table tbody a")).to_have_text(["Ada Adams", "Zoë Żółć"])


def test_every_student_is_one_link_away_and_the_way_back_keeps_what_was_chosen(
    watched: Watched, results: Path
) -> None:
    page = watched.open(results / "class" / "index.html")
    for link in page.locator("main a[href^='students/']").all():
        target = unquote(str(link.get_attribute("href")))
        assert (results / "class" / target).is_file()
    page.get_by_label("Search").fill("example")
    page.get_by_role("button", name="Final").click()
    page.wait_for_url(re.compile("search=example&sort=-final"))
    page.get_by_role("link", name="Zoë Żółć").first.click()
    assert page.locator("h1").inner_text() == "Zoë Żółć"
    page.go_back()
    assert page.get_by_label("Search").input_value() == "example"
    assert names(page) == ["Ada Adams", "Ben Berg", "Zoë Żółć"]
    page.get_by_role("link", name="Ben Berg").first.click()
    page.get_by_role("link", name="All students").click()
    assert page.locator("h1").inner_text() == "Autumn"


def test_an_address_that_means_nothing_does_no_harm(watched: Watched, results: Path) -> None:
    page = watched.page
    for odd in ("status=99&flag=none&check=x&sort=nothing", "sort=__proto__", "%%%=&search=%00", "q"):
        page.goto("about:blank")
        page.goto(f"{(results / 'class' / 'index.html').as_uri()}#{odd}")
        assert page.locator("#students-table tbody tr").count() in (0, 5)


def test_a_students_page_runs_nothing_and_unfolds(watched: Watched, results: Path) -> None:
    log = "\n".join(f"line {number}" for number in range(40))
    check = replace(CLASS[4].exercises[0].checks[0], message=log)
    own = replace(CLASS[4], exercises=(replace(CLASS[4].exercises[0], checks=(check,)),))
    write_pages((own,), CATALOGUE, (), slugs((own,)), results / "log")
    page = watched.open(results / "log" / "students" / slugs((own,))["z1"] / "index.html")
    assert page.locator("script").count() == 0
    assert not page.get_by_text("line 39").is_visible()
    page.get_by_text("32 more lines").click()
    assert page.get_by_text("line 39").is_visible()


def test_hostile_texts_are_shown_and_never_run(watched: Watched, results: Path) -> None:
    page = watched.open(results / "hostile" / "index.html")
    page.locator("details").evaluate_all("all => all.forEach((one) => { one.open = true; })")
    assert len(names(page)) == len(HOSTILE)
    assert names(page)[0] in {text[:200] for text in HOSTILE} | {"${hacked=1}\\u003cscript\\u003e"}
    assert "<script>hacked=1</script>" in names(page)
    page.get_by_label("Search").fill("<script>")
    assert all("<script>" in name for name in names(page))
    assert not overflows(page)
    addresses = [str(link.get_attribute("href")) for link in page.locator("#students-table a").all()]
    for address in addresses:
        watched.open(results / "hostile" / unquote(address))
        assert page.locator("script, img, iframe").count() == 0
        assert not overflows(page)
    assert page.evaluate("'hacked' in window") is False


def test_the_policy_stops_what_a_page_might_be_made_to_hold(
    browser: Browser, results: Path, tmp_path: Path
) -> None:
    source = (results / "class" / "index.html").read_text()
    (tmp_path / "own.js").write_text("hacked = 1")
    more = '<script>hacked=1</script><script src="own.js"></script><img src="x.png" onerror="hacked=1"><i style="top:0">'
    (tmp_path / "index.html").write_text(source.replace("</main>", f"{more}</main>"))
    context = browser.new_context(offline=True)
    try:
        page = context.new_page()
        page.goto((tmp_path / "index.html").as_uri())
        assert len(names(page)) == 5
        assert page.evaluate("'hacked' in window") is False
    finally:
        context.close()


def test_sorting_filtering_and_reading_need_no_mouse(watched: Watched, results: Path) -> None:
    page = watched.open(results / "class" / "index.html")
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.textContent") == "Skip to the content"
    page.get_by_label("Search").focus()
    page.keyboard.type("example")
    assert names(page) == ["Ada Adams", "Ben Berg", "Zoë Żółć"]
    for _ in range(12):
        page.keyboard.press("Tab")
        if page.evaluate("document.activeElement.dataset.key") == "final":
            break
    assert page.evaluate("document.activeElement.matches(':focus-visible')")
    page.keyboard.press("Enter")
    page.keyboard.press("Space")
    assert names(page) == ["Zoë Żółć", "Ben Berg", "Ada Adams"]
    page.get_by_role("application").focus()
    for key in ("ArrowRight", "End", "ArrowDown", "ArrowLeft", "ArrowUp", "ArrowRight"):
        page.keyboard.press(key)
    assert page.locator("#readout").inner_text() == "ddp_train / joins_group · Zoë Żółć: crashed"
    page.keyboard.press("Enter")
    page.wait_for_url(re.compile("/students/"))
    assert page.locator("h1").inner_text() == "Zoë Żółć"


def test_the_heat_map_answers_to_the_pointer_and_follows_the_filters(watched: Watched, results: Path) -> None:
    page = watched.open(results / "class" / "index.html")
    canvas = page.get_by_role("application")
    canvas.hover(position={"x": 5, "y": 30})
    assert page.locator("#readout").inner_text() == "ddp_train / joins_group · Ada Adams: passed"
    canvas.hover(position={"x": 5, "y": 44})
    assert (
        page.locator("#readout").inner_text() == "ddp_train / reshuffles · Ada Adams: failed, points in part"
    )
    page.get_by_label("Search").fill("ben")
    canvas.hover(position={"x": 6, "y": 96})
    assert page.locator("#readout").inner_text() == "answers / present · Ben Berg: not made"


@pytest.mark.parametrize("viewport", [PHONE, WIDE], ids=["phone", "wide"])
def test_nothing_makes_the_page_itself_scroll_sideways(
    watched: Watched, results: Path, viewport: dict[str, int]
) -> None:
    watched.page.set_viewport_size(viewport)  # type: ignore[arg-type]
    for place in ("class", "hostile"):
        page = watched.open(results / place / "index.html")
        page.locator("details").evaluate_all("all => all.forEach((one) => { one.open = true; })")
        assert not overflows(page)
        page = watched.open(next((results / place / "students").glob("*1*/index.html")))
        page.locator("details").evaluate_all("all => all.forEach((one) => { one.open = true; })")
        assert not overflows(page)


def test_paper_gets_every_row_and_no_controls(watched: Watched, tmp_path: Path) -> None:
    people = many(230)
    (tmp_path / "index.html").write_text(Pages(CATALOGUE).of_class(people, (), slugs(people)))
    page = watched.open(tmp_path / "index.html")
    assert told(page) == "1 to 100 of 230 students"
    page.get_by_role("button", name="Next").first.click()
    page.get_by_role("button", name="Next").first.click()
    assert told(page) == "201 to 230 of 230 students"
    page.emulate_media(media="print")
    page.evaluate("window.dispatchEvent(new Event('beforeprint'))")
    assert page.locator("#students-table tbody tr").count() == 230
    assert not page.locator("#filters").is_visible()
    page.evaluate("window.dispatchEvent(new Event('afterprint'))")
    assert page.locator("#students-table tbody tr").count() == 30
    assert page.pdf().startswith(b"%PDF")


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_a_whole_class_fits_on_paper_and_is_ink_on_white(
    watched: Watched, tmp_path: Path, scheme: str
) -> None:
    people = make_records(12)
    (tmp_path / "index.html").write_text(Pages(titles()).of_class(people, (), slugs(people)))
    watched.page.emulate_media(color_scheme=scheme)  # type: ignore[arg-type]
    page = watched.open(tmp_path / "index.html")
    page.emulate_media(media="print", color_scheme=scheme)  # type: ignore[arg-type]
    page.evaluate("window.dispatchEvent(new Event('beforeprint'))")
    # A4 across, less its margins.
    page.set_viewport_size({"width": 1031, "height": 700})
    assert not overflows(page)
    assert page.evaluate("getComputedStyle(document.body).backgroundColor") == "rgb(255, 255, 255)"
    corner = page.get_by_role("application").evaluate(
        "canvas => [...canvas.getContext('2d').getImageData(0, 2, 1, 1).data]"
    )
    assert corner == [255, 255, 255, 255]


def many(count: int) -> tuple[Record, ...]:
    """So many students with work of three kinds."""
    rng = random.Random(count)
    return tuple(
        record(
            Student(f"s{number}", f"Student {number}"),
            ddp(failed=rng.random() < 0.3, crashed=rng.random() < 0.1),
        )
        for number in range(count)
    )


def test_the_page_holds_as_many_elements_for_thousands_as_for_hundreds(
    watched: Watched, tmp_path: Path
) -> None:
    counts = []
    for count in (150, 2000):
        people = many(count)
        (tmp_path / "index.html").write_text(Pages(CATALOGUE).of_class(people, (), slugs(people)))
        page = watched.open(tmp_path / "index.html")
        assert told(page).startswith("1 to 100 of")
        counts.append(page.evaluate("document.querySelectorAll('*').length"))
        canvas = page.get_by_role("application")
        assert canvas.evaluate("canvas => canvas.width <= 1280 * devicePixelRatio")
        page.get_by_label("Search").fill(f"student {count - 1}")
        assert names(page) == [f"Student {count - 1}"]
        page.get_by_label("Search").fill("")
        canvas.hover(position={"x": 40, "y": 30})
        readout = page.locator("#readout").inner_text()
        # Two thousand columns do not fit: one pixel tells of several students.
        assert ("students" in readout) == (count == 2000)
    few, many_of_them = counts
    assert abs(many_of_them - few) < 40
    canvas.click(position={"x": 40, "y": 30})
    assert page.get_by_label("Width of a student").input_value() == "14"
    assert re.search(r"· Student \d+: passed$", page.locator("#readout").inner_text())


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("kind", ["class", "student"])
def test_who_cannot_see_the_page_can_use_it(watched: Watched, results: Path, scheme: str, kind: str) -> None:
    watched.page.emulate_media(color_scheme=scheme)  # type: ignore[arg-type]
    place = results / "class"
    page = watched.open(place / "index.html" if kind == "class" else place / "students" / "a1" / "index.html")
    page.locator("details").evaluate_all("all => all.forEach((one) => { one.open = true; })")
    page.evaluate(AXE)
    # Structure is the same in the dark; only the contrast is not.
    rules = (
        {"type": "tag", "values": RULES}
        if scheme == "light"
        else {"type": "rule", "values": ["color-contrast"]}
    )
    found = page.evaluate("(rules) => axe.run({runOnly: rules, resultTypes: ['violations']})", rules)
    assert [(each["id"], [node["html"] for node in each["nodes"]]) for each in found["violations"]] == []
    assert found["passes"]
