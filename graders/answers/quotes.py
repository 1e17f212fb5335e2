"""Finds the measured numbers that an answer quotes: `1.87x`, `61.4 s`, `5,3 s`, `512 images/s`, `efficiency 87 %`.

A number counts only with a unit or a word that says what it measures, and only where nothing around it says that it is
somebody else's, a limit, or a thought. What is in doubt is left out: to be asked about a number that was right costs
more trust than a wrong one that goes unseen, since a person reads every answer anyway.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator
from dataclasses import dataclass, replace

from graders.answers.measured import Figure, Kind, Topic

MAX_QUOTES = 60
CHARACTERS = 40_000

MINUTE = 60.0

NEAR = 0.03
"""Relative: answers say "about", and average before or after dividing."""

# 1234, 1,234.5, 1 234,5, 5.3, 5,3, 8.5e-05; not part of a name, a version, a date or a range.
_NUMBER = re.compile(
    r"(?<![\w.,:/–+-])(?<![–+-] )"
    r"(?P<number>\d{1,3}(?:[,.' \u00a0\u202f]\d{3})+(?:[.,]\d{1,9})?|\d{1,12}(?:[.,]\d{1,9})?(?:[eE]-?\d{1,2})?)"
    r"(?![\d:/]|[.,]\d|\s?[–-]\s?\d)"
)
_SPREAD = r"(?:\s?(?:±|\+/-|\+-)\s?\d{1,12}(?:[.,]\d{1,9})?)?"
_SECONDS = r"(?P<second>s|secs?|seconds?|sek|sekunder|sekunden?|secondes?|segundos?)(?!\w|/)"
_UNITS: tuple[tuple[Kind, re.Pattern[str], float], ...] = tuple(
    (kind, re.compile(_SPREAD + pattern, re.IGNORECASE), scale)
    for kind, pattern, scale in (
        (Kind.RATIO, r"\s?[x×](?![\w-]|\.\w|\s?\d)", 1.0),
        (Kind.RATIO, r"[\s-]{0,2}(?:times|fold|gange|mal|fach|fois|veces|ganger|gånger)(?!\w)", 1.0),
        (
            Kind.RATE,
            r"\s?(?:images?|imgs?|samples?|items?|pictures?|billeder|bilder|it|its|iterations?|steps?|batches)"
            r"(?:\s?/\s?|\s(?:per|pr\.?|pro)\s)(?:s|sec|second|sekund|sekunde)(?!\w)",
            1.0,
        ),
        (Kind.SECONDS, r"\s?(?:ms|msecs?|milliseconds?|millisekund(?:er|en)?)(?!\w|/)", 1e-3),
        (Kind.SECONDS, r"\s?(?:µs|μs|us|microseconds?|mikrosekund(?:er|en)?)(?!\w|/)", 1e-6),
        (Kind.SECONDS, r"\s?" + _SECONDS, 1.0),
        (Kind.SECONDS, r"\s?(?:min|mins|minutes?|minutter|minuten?)(?!\w|/)", MINUTE),
        (Kind.BYTES, r"\s?(?:gb|gib)(?!\w|/)", 1e9),
        (Kind.BYTES, r"\s?(?:mb|mib)(?!\w|/)", 1e6),
        (Kind.SHARE, r"\s?(?:%|percent|per cent|procent|prozent|pct)(?!\w)", 1e-2),
    )
)
# "19.7 percentage points": how far apart two shares are, and neither of them.
_POINTS = re.compile(
    r"\s?(?:(?:percent(?:age)?|per\scent|procent|prozent|%)[\s-]?(?:points?|point(?:et)?|punkte?n?)"
    r"|points?\sde\spourcentage|puntos?\sporcentual(?:es)?|pp|ppts?|%-?p)(?!\w)",
    re.IGNORECASE,
)
# The factors of `torch.amp.GradScaler` and of a DataLoader are settings.
_SPEEDUP = re.compile(
    r"speed[\s-]?up|(?<!growth[\s_-])(?<!backoff[\s_-])(?<!scale[\s_-])(?<!prefetch[\s_-])(?<!decay[\s_-])factor"
    r"|faktor|hastighedsforøgelse|beschleunigung|accélération",
    re.IGNORECASE,
)
_EFFICIENCY = re.compile(
    r"(?<!co)efficien|effektivitet|effizienz|effektivität|efficac|eficien", re.IGNORECASE
)
# What else has a percentage, between the word and the number: an efficiency that suffers while the CPU is at 97 %.
_OTHER_SHARE = re.compile(
    r"\b(?:[cg]pus?|cores?)\s(?:is|are|was|were|at)\b|utili[sz]|usage|busy|idle|occupan|accurac|varia|batter|memory|cache",
    re.IGNORECASE,
)
# What stands from the word for a ratio to a number without a unit, where the number is that ratio's: "of", "on two
# processes was", "(2 processes):". Of "was measured with a learning rate of" it is not.
_THAT_IS = re.compile(
    r"\w{0,12}(?:\s(?:factors?|values?|ratios?|figures?|loss|itself|faktor|only|[a-z])){0,2}\W{0,3}?"
    r"(?:\s?\([^()]{0,40}\)|\s?,[^,;:()]{0,30},)?"
    r"(?:"
    # directly
    r"\s(?:of|at|to|by|as|von|um|auf|bei|på|til|de)|\s?(?:=[^=,;:()]{1,30})?[=:≈~]|"
    # we measured
    r",?\s(?:i|we|ich|wir|jeg|vi)\s(?:\w+\s)?(?:get|got|measured?|see|saw|had|have|observed?|found|find|reach(?:ed)?)|"
    # on two processes was
    r"(?:\s(?:on|of|for|with|from|over|by|in|at|using|between|across|through|versus|vs\.?|compared|relative|that|which"
    r"|here|there|then|thus|therefore|now|again|i|we|and|achieved|measured|observed|obtained|reached|gained"
    r"|med|på|fra|til|ved|af|og|von|für|mit|bei|auf|im|und|pour|avec|sur|de|à|et)\b[^,;:()]{0,45}?)?"
    r"(?:\s?:|\s(?:is|was|are|were|be|been|equals?|equalled|remain(?:s|ed)|stay(?:s|ed)|reach(?:es|ed)|hits?"
    r"|(?:amount|com)(?:s|ed|es)?\sto|came\sto|(?:c[ao]mes?|turn(?:s|ed)|works?|worked)\sout"
    r"|(?:f[ae]ll|fell|falls|drop|drops|dropped|sinks?|sank|goes|went|gr[eo]ws?|rises?|rose|increase[sd]?|decrease[sd]?)"
    r"(?:\s(?:down|up|again|back))?\s(?:from|to)"
    r"|ist|war|sind|waren|beträgt|betrug|liegt|lag|sinkt\sauf|sank\sauf|fällt\sauf|er|var|blev|bliver"
    r"|est|était|es|fue|är)"
    r"(?:\s(?:also|then|thus|therefore|so|here|indeed|measured|found|observed|computed|equal))?"
    r"(?:\s(?:to\sbe|as|at|to|bei|på))?)|"
    r")"
    r"(?:\W{0,3}\b(?:about|around|approx|almost|only|just|even|still|an?|the|mere|\w{1,15}ly"
    r"|de|circa|cirka|ca|omkring|kun|etwa|rund|ungefähr|nur|knapp|environ)\b){0,4}\W{0,4}",
    re.IGNORECASE,
)
# What else has a value in between, or begins to speak of something else.
_OTHER_VALUE = re.compile(
    r"\b(?:rates?|lr|lernrate|læringsrate|momentum|decay|dropout|betas?|alpha|gamma|epsilon|eps|temperature|seeds?|thresholds?"
    r"|versions?|torch|pytorch|torchvision|cuda|cudnn|nccl|gloo|python|kernel|driver|ubuntu|linux|accurac\w*|the\sloss"
    r"|deviation|variance|coefficient|spread|margin|error|when|where|because|since|if|while|but|although|though|whereas"
    r"|weil|wenn|obwohl|während|fordi|når|hvor|mens)\b",
    re.IGNORECASE,
)
_CLAUSE = re.compile(r"[,;:()]")
# "from 1.0 to 0.8": what one process has by definition.
_FROM = re.compile(r"\b(?:from|von|fra|de)\W{0,3}$", re.IGNORECASE)
# "0.4 below 2": how far off, and not the number itself.
_APART = re.compile(
    r"\s(?:below|short\sof|away\sfrom|unter|under)\s(?:the\s)?(?:ideal\s)?(?:of\s)?\d", re.IGNORECASE
)
_LARGEST_BATCH = re.compile(
    r"\b(?:largest|biggest|max(?:imum|imal)?|største|größte)\b[^.;\d]{0,25}batch", re.IGNORECASE
)


def _any_of(phrases: str) -> str:
    """A pattern for a list of words, each of which may end in `*`; `_` is a blank within one."""
    escaped = (re.escape(word).replace(r"\*", r"\w*").replace("_", r"\s") for word in phrases.split())
    return rf"(?<!\w)(?:{'|'.join(escaped)})(?!\w)"


# The whole sentence speaks of something else than the student's own measurement.
_ELSEWHERE = re.compile(
    _any_of(
        "paper papers published literature lecture lectures slides course according nvidia hugging_face blog tutorial "
        "docs documentation reference classmate* other_group* et_al amdahl* karp* in_theory theor* hypothe* suppos* "
        "imagin* for_example for_instance e.g. expect* predict* estimat* extrapol* would if assum* another someone "
        "friend sleep* timeout timeouts accumulat* not_in_the_report not_in_my_report "
        "second_sitting third_sitting other_sitting earlier_sitting later_sitting separate_sitting "
        "ifølge teori* forvent* ville hvis fx f.eks. "
        "laut theorie erwart* würde* wenn z.b. z.\u00a0b."
    ),
    re.IGNORECASE,
)
# The sentence brings evidence that no report holds: seconds and bytes in it are of a tool, or of what is sent.
_EVIDENCE = re.compile(
    _any_of(
        "profil* nsys nsight trace* bucket* gradient* nccl-test* all_reduce_perf nvidia-smi dmon htop "
        "vtune microbenchmark* micro-benchmark* without_a_model without_the_model start-up startup starting "
        "gradienter gradienten"
    ),
    re.IGNORECASE,
)
# What a batch was set to, in a sentence on what came of it.
_WITH_BATCH = re.compile(
    r"\bbatch(?:[\s-]?size)?s?(?:\s(?:of|=|is|was|von|på))?\W{0,3}(\d{1,7})(?![\d.,]\d)(?!\s?[x×%])",
    re.IGNORECASE,
)
# A ratio in a sentence on memory, and not on time, is one of bytes, which many a tool tells and no report need hold.
_MEMORY = re.compile(r"memory|vram|speicher|hukommelse|mémoire|memoria|(?<!\w)[GM]i?B(?!\w)", re.IGNORECASE)
_TIME = re.compile(
    r"speed|fast|slow|times?\b|throughput|\d\s?m?s\b|/\s?s\b|seconds?\b|epoch|schnell|langsam|hurtig|rapid|lent",
    re.IGNORECASE,
)
_FASTER = re.compile(r"speed[\s-]?up|\bfaster\b", re.IGNORECASE)
_SEVERAL = re.compile(
    r"\b(?:two|three|four|eight|2|3|4|8|several|both|all)\s(?:processes|ranks|gpus|workers|devices|replicas|cards)\b",
    re.IGNORECASE,
)
_ONE = re.compile(r"\b(?:one|1|single|alone|baseline)\b(?![.,]\d)", re.IGNORECASE)
# A word for a loss, or for what is compared with what; where one stands, nothing is said of the direction.
_TURNED = re.compile(
    _any_of(
        "slow* loss* lost lose* revers* invers* reciprocal* penalt* worse down below less cost* instead without back "
        "drop* turn* negative only not no never leave* remov* langsam* langsom* to_one to_1 to_a_single "
        "than_two than_2 than_four than_4 than_several than_both over_two over_2 over_four over_4"
    )
    + r"|\b1\s?/",
    re.IGNORECASE,
)
# Just before a number: a bound or a target, not a reading; or the second of two ends.
_BOUND = re.compile(
    _any_of(
        "below under less_than fewer_than more_than over above at_most at_least up_to within ideal* perfect* linear* "
        "max maximum minimum limit* target* should could can might may must not never than instead_of towards "
        "op_til mindst højst mindre_end mere_end bør kan skal ikke "
        "unter über bis_zu höchstens mindestens soll* kann nicht"
    )
    + r"\W{0,3}(?:\w+\W{1,3})?$|[<>≤≥]\s?=?\s?$|\d\s?(?:to|til|bis|and|og|und)\s?$"
    # "could reach a speedup of", "könnten einen Speedup von"
    r"|\b(?:could|can|cannot|may|might|should|not|never|n[’']t|kan|kunne|(?<!managed\s)(?<!able\s)to)\s(?:\w{1,12}\s)?"
    r"(?:reach|achieve|attain|get|have|give|yield|bring|gain|expect|nå|opnå)\s(?:[\w-]{1,20}\s){0,3}(?:of\s|på\s)?\W?$"
    r"|\bkönnten?\s(?:[\w-]{1,20}\s){0,4}(?:von|auf|bei)\s$"
    # "caps the speedup at"
    r"|\b(?:caps?|capped|capping|limit(?:s|ed|ing)?|bound(?:s|ed)?|restrict(?:s|ed)?|begrenz\w{1,3}|begræns\w{1,3})\s"
    r"(?:[\w-]{1,20}\s){0,3}(?:at|to|by|auf|bei|til|på)\s(?:\w{1,13}\s)?$",
    re.IGNORECASE,
)
# Just after it: what it would have to be.
_IDEAL = re.compile(
    r"\W{0,3}(?:(?:that|which|as|der|som|is|er|ist|speed-?up|the|an?|would|be)\s){0,3}"
    r"(?:ideal|perfect|theoretical|linear|in theory|maximum|expected|at (?:the )?(?:very )?(?:best|most)"
    r"|teoretisk|ideel|optimal)",
    re.IGNORECASE,
)
_SENTENCE = re.compile(r"(?<=[.!?])\s+(?=[^\s\d])|\n{2,}|[;|•]|\n(?=[^\S\n]*[-*|])")
_TOPICS = {
    topic: re.compile(words, re.IGNORECASE)
    for topic, words in {
        Topic.STEP: r"\bsteps?\b|\bcalls?\b|\biterations?\b|schritt|skridt|as\slong\b|so\slang",
        Topic.EACH: r"\beach\b|\bper[\s-](?:process|rank|gpu|worker|device|core|card)|\bjede|\bhver\b|\bchaque\b"
        r"|\b(?:pro|pr\.?|par)\s(?:proces|prozess|gpu|worker)",
        Topic.LOST: r"\blos(?:s|ses|t|e|es|ing)\b|inefficien"
        r"|(?:dropped|drops|fell|falls|lowered|reduced)\sby\b|overhead|wast|verlust|verlier|\btab\b|perte|perdu",
        Topic.SHORT: r"\bshort\sof\b|remaining|missing|to\sthe\sideal|away\sfrom|\bfehl",
        Topic.SPREAD: r"slowest|fastest|longest|shortest|\bbest\b|worst|spread|\brange"
        r"|langsamste|schnellste|langsomste|hurtigste",
    }.items()
}


@dataclass(frozen=True)
class Quote:
    """One number as it stands in the text; `readings` are value and last printed place, by each way to read it.

    `batches` are those that its sentence speaks of, if any; `gain`: it says how much faster several are than one;
    `topics`: what else the sentence speaks of.
    """

    text: str
    kind: Kind
    readings: tuple[tuple[float, float], ...]
    batches: frozenset[int] = frozenset()
    gain: bool = False
    topics: frozenset[Topic] = frozenset()

    def agrees_with(self, figure: Figure, near: float = NEAR) -> bool:
        """Whether this is the figure: at the printed precision, or as near as `near`, relative."""
        if (self.gain and figure.turned_over) or (figure.topic and figure.topic not in self.topics):
            return False
        return self.kind is figure.kind and any(
            abs(value - figure.value) <= max(1.001 * place, near * abs(figure.value))
            for value, place in self.readings
        )

    def distance(self, figure: Figure) -> float:
        """How far off a figure of the same kind is."""
        return min(abs(value - figure.value) for value, _ in self.readings)


def quotes(text: str) -> list[Quote]:
    """The measured numbers in what an author states, in their order."""
    sentences = _SENTENCE.split(text[:CHARACTERS])
    own = (sentence for sentence in sentences if not _ELSEWHERE.search(sentence))
    return list(itertools.islice(itertools.chain.from_iterable(map(_in_sentence, own)), MAX_QUOTES))


def _in_sentence(sentence: str) -> Iterator[Quote]:
    before_this, evidence = 0, _EVIDENCE.search(sentence) is not None
    batches = frozenset(int(number) for number in _WITH_BATCH.findall(sentence))
    if _LARGEST_BATCH.search(sentence):
        batches = frozenset()
    gain = _says_gain(sentence)
    topics = frozenset(topic for topic, words in _TOPICS.items() if words.search(sentence))
    of_bytes = _MEMORY.search(sentence) is not None and _TIME.search(sentence) is None
    for match in _NUMBER.finditer(sentence):
        before, after = sentence[before_this : match.start()], sentence[match.end() : match.end() + 60]
        quote = _measured(match["number"], before[-80:], after)
        if quote is not None:
            before_this = match.end()
            if of_bytes and quote.kind is Kind.RATIO:
                continue
            if not evidence or quote.kind not in (Kind.SECONDS, Kind.BYTES):
                above = quote.kind is Kind.RATIO and all(value > 1 for value, _ in quote.readings)
                yield replace(quote, batches=batches, gain=gain and above, topics=topics)


def _says_gain(sentence: str) -> bool:
    """Whether a sentence says of several processes that they are faster than one, and not the other way round."""
    several, one = _SEVERAL.search(sentence), _ONE.search(sentence)
    if several is None or _TURNED.search(sentence) or not _FASTER.search(sentence):
        return False
    return one is None or several.start() < one.start()


def _measured(number: str, before: str, after: str) -> Quote | None:
    """The quote that a number is, by what stands around it."""
    readings = _readings(number)
    decimals = any(place < 1 for _, place in readings)
    if not readings or _BOUND.search(before[-40:]) or _POINTS.match(after):
        return None
    for kind, unit, scale in _UNITS:
        match = unit.match(after)
        if match is None:
            continue
        if _IDEAL.match(after[match.end() :]):
            return None
        if kind is Kind.SHARE and not _is_efficiency(before, after[match.end() : match.end() + 25]):
            return None  # percent of what?
        if kind is Kind.SHARE and readings[0][0] == 100 and _FROM.search(before):
            return None
        if kind is Kind.RATIO and not decimals:
            return None  # "2x" is a manner of speaking, or two of something
        if kind is Kind.SECONDS and not decimals and (readings[0][0] < 10 or scale == MINUTE):
            return None  # how long it took in all, more or less
        scales = (
            (scale, scale * (2**30 / 1e9 if scale == 1e9 else 2**20 / 1e6))
            if kind is Kind.BYTES
            else (scale,)
        )
        return Quote(
            f"{number}{match[0].rstrip()}",
            kind,
            tuple((value * each, place * each) for value, place in readings for each in scales),
        )
    if not decimals:
        if _LARGEST_BATCH.search(before) and readings[0][0] > 1:
            return Quote(f"batch size {number}", Kind.BATCH, readings)
        return None
    if _IDEAL.match(after) or _is_apart(readings, after) or (readings[0][0] == 1 and _FROM.search(before)):
        return None
    if _is_of(_SPEEDUP, before):
        return Quote(f"speedup {number}", Kind.RATIO, readings)
    if _is_of(_EFFICIENCY, before):
        return Quote(f"efficiency {number}", Kind.SHARE, readings)
    return None


def _is_of(word: re.Pattern[str], before: str) -> bool:
    """Whether a number without a unit is said of a word, by what stands between the two."""
    *_, last = itertools.chain((None,), word.finditer(before, max(len(before) - 60, 0)))
    if last is None or _OTHER_VALUE.search(before, last.end()):
        return False
    return _THAT_IS.fullmatch(before, last.end()) is not None


def _is_apart(readings: tuple[tuple[float, float], ...], after: str) -> bool:
    return readings[0][0] < 1 and _APART.match(after) is not None


def _is_efficiency(before: str, after: str) -> bool:
    """Whether a percentage is that of an efficiency, by the word before it, or behind it in the same clause."""
    *_, last = itertools.chain((None,), _EFFICIENCY.finditer(before))
    if last is not None and not _OTHER_SHARE.search(before, last.end()):
        return True
    return _EFFICIENCY.search(_CLAUSE.split(after, maxsplit=1)[0]) is not None


def _readings(number: str) -> tuple[tuple[float, float], ...]:
    """A number and the worth of its last digit; `9,416` is read both ways."""
    mantissa, _, exponent = re.sub(r"[' \u00a0\u202f]", "", number).lower().partition("e")
    scale = 10.0 ** int(exponent or 0)
    found: dict[float, float] = {}
    for decimal, group in ((".", ","), (",", ".")):
        match = re.fullmatch(
            rf"(?P<whole>\d+|\d{{1,3}}(?:\{group}\d{{3}})+)(?:\{decimal}(?P<fraction>\d+))?", mantissa
        )
        if match is None:
            continue
        whole, fraction = match["whole"].replace(group, ""), match["fraction"] or ""
        value = float(f"{whole}.{fraction or 0}") * scale
        # 1200 may be any number from 1150 on.
        zeros = len(whole) - len(whole.rstrip("0"))
        rounded = 0.0 if fraction else min(0.5 * 10.0**zeros, 0.1 * value)
        found[value] = max(10.0 ** -len(fraction) * scale, rounded)
    return tuple(found.items())
