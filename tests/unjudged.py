"""What a judge reads of a right solution and need not judge, and what it only reads of a wrong one: each with why."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from fnmatch import fnmatchcase

UNREAD = "unread"
"""As a change: no check of the exercise reads it of a right solution."""


@dataclass(frozen=True)
class Row:
    """What may change in recordings of some checks without ending them.

    `checks`, `keys` and `changes` are patterns with shell wildcards, `|` between them.
    """

    checks: str
    keys: str
    changes: str
    why: str

    def excuses(self, check: str, key: str, change: str) -> bool:
        """Whether it says why this check need not mind."""
        return _any(check, self.checks) and _any(key, self.keys) and _any(change, self.changes)

    def is_about(self, check: str) -> bool:
        """Whether it says anything of this check."""
        return _any(check, self.checks)


class Tally:
    """Which changes nobody noticed although no row excuses them, and which rows were needed."""

    def __init__(self, rows: Iterable[Row]) -> None:
        """Of these rows each has to be needed."""
        self._rows = set(rows)
        self._needed: set[Row] = set()
        self._unexcused: set[tuple[str, str, str]] = set()

    def has_to_learn(self, check: str, key: str, change: str) -> bool:
        """Whether it matters if a change is noticed: not once every row that excuses it was needed."""
        excuses = self._excuses(check, key, change)
        return not excuses or not excuses <= self._needed

    def is_excused(self, check: str, key: str, change: str) -> bool:
        """Whether a row excuses it."""
        return bool(self._excuses(check, key, change))

    def unnoticed(self, check: str, key: str, change: str) -> None:
        """Count a change that nobody noticed."""
        excuses = self._excuses(check, key, change)
        self._needed |= excuses
        if not excuses:
            self._unexcused.add((check, key, change))

    def assert_clean(self) -> None:
        """Fail where a change is not excused, or a row excuses none."""
        assert not self._unexcused, "\n".join(map(str, sorted(self._unexcused)))
        needless = self._rows - self._needed
        assert not needless, "\n".join(map(str, needless))

    def _excuses(self, check: str, key: str, change: str) -> set[Row]:
        return {row for row in self._rows if row.excuses(check, key, change)}


def _any(name: str, patterns: str) -> bool:
    return any(fnmatchcase(name, pattern) for pattern in patterns.split("|"))


MORE = "one more|one less"
ORDER = "two swapped"
FORM = "missing|emptied|other text|as text|as a number"
PROSE = "missing|emptied|other text"
SLIGHT = "*slightly*"
OF_A_REPORT = "|".join(
    f"*.report:.{part}*"
    for part in ("student", "attempt", "env", "method", "workload", "runs", "claims", "not_available")
)
REPORTED = "what a report says is held against itself and its machine by exercise 9"

UNJUDGED: dict[str, tuple[Row, ...]] = {
    "scaling": (
        Row("*", "calls values.bad.#.kinds", "one twice", "it is asked whether a kind is among them"),
        Row("*", "calls values.bad.#.raised", UNREAD, "the name of a wrong error, for its message"),
    ),
    "data_parallel": (
        Row("is_data_parallel", "wrap* values.wrapped", "one twice", "the first answers are those to what was asked"),
        Row("is_data_parallel", "wrap values.wrapped.#.device_ids", "missing", "without GPUs there are no devices to work on"),
        Row("is_data_parallel", "wrap values.wrapped.#.weights*", "*", "without GPUs they have no other place"),
        Row("same_output|splits_like_devices", "forward* values.kinds*", PROSE, "what came instead of a tensor, for the message"),
        Row("same_output", "forward values.parts*", "*", "without GPUs no batch is split"),
        Row("splits_like_devices", "forward* values.parts.batch/*", PROSE, "whatever the devices are called, there are several"),
        Row("splits_like_devices", "forward* values.parts.batch/*", ORDER, "the parts of a batch are added up"),
        Row("", "forward values.device_ids*|forward values.inner|forward values.weights*", UNREAD, "the wrapper is described as for is_data_parallel"),
        Row("timing_is_sound", "time_calls* values.sessions", ORDER, "each of them is sound"),
        Row("timing_is_sound", "time_calls* elapsed", "times 10.0", "busy machines take longer"),
        Row("timing_is_sound", "time_calls* values.sessions.#.readings.#", SLIGHT, "a clock may be read so much later"),
        Row("timing_is_sound", "time_calls* values.sessions.#.calls*", f"{MORE}|flipped|{ORDER}|half as much again|{SLIGHT}", "calls before and after the timed ones are free"),
        Row("timing_is_sound", "time_calls* values.sessions.#.returned", "*more*|*again", "it bounds the last reading from above alone"),
        Row("report", "script* output", "emptied", "told where the script fails"),
        Row("report", "script/3 ranks", "stale", "asked only whether it comes to its end without --report"),
        Row("report", "script values.calls*", f"one twice|{MORE}|{ORDER}", "each size was called often enough, and may be more often"),
        Row("report", "script values.modes*", f"one twice|{MORE}|{ORDER}", "so are the modes, called often enough"),
        Row("report", "script values.by_children", "flipped", "what processes of the script's own call is not seen"),
        Row("report", "script/2 ended|script/2 ranks", "*", "a script that fails on emulated GPUs otherwise than by devices is no evidence"),
        Row("report", "script/2 values.status|script/2 arrays.report|script/2 arrays.report:.report|script/2 arrays.report:.schema", "*", "nor is one that fails there by itself or leaves no report"),
        Row("report", "script/2 values.calls*", "*", "that any model was called is enough, and a script that never calls one there is no evidence"),
        Row("report", "script/2 values.by_children", "flipped", "processes of the script's own know of no emulated GPUs"),
        Row("report", "script/2 values.places*", f"one twice|{ORDER}|emptied|other text", "whatever the GPUs are called, there are several"),
        Row("report", "script/2 began_at", "an hour later", "a report of an earlier run is told of by the first one"),
        Row("report", "script values.most_parameters", f"{MORE}|missing|as text", "some count buffers, and where no call was seen there are none; half of what the report says is another network"),
        Row("report", "script values.networks*", f"one missing|one twice|{MORE}|{ORDER}", "enough of the calls were of the network, and those of the warm-up may be missing"),
        Row("report", "script/2 values.largest_part", "missing|as text|one more", "a larger part than the batch is another batch's, and without any there was no call to see"),
        Row("", "script values.second_used|script values.asks_elsewhere", UNREAD, "looked at where there are no readings of two devices"),
        Row("report", OF_A_REPORT, "*", REPORTED),
    ),
    "fashion_trainer": (
        Row("*", "*.device|*.loss_device", "other text|emptied", "on a CPU alone there is no other device to be on"),
        Row("*", "*.training|*.grad|*.trained", "flipped", "modes are for eval_mode to judge"),
        Row("*", "train_and_evaluate* values.train/*.#.loss_device", "missing", "a loss of the student's own, or one that autograd.grad is asked about, is not seen"),
        Row("*", "train_and_evaluate* values.train/*.#.loss", "*", "only where the mean of the losses is not what was returned"),
        Row("*", "* values.train/*|* values.test/*|* values.script/*", ORDER, "whose rows fit is seen by what came out"),
        Row("trains_on_cpu", "train_and_evaluate* values.accuracy", SLIGHT, "half a percent is rounding"),
        Row("*", "*_kind|ask_device values.kind", PROSE, "a number in another form costs nothing"),
        Row("*", "train_and_evaluate* arrays.trained/*", "*scaled*|*slightly*|turned", "any weights that tell the classes apart were learned"),
        Row("trains_on_cpu", "train_and_evaluate arrays.barely/*", "*scaled*|*slightly*|turned", "somewhat farther is still not as far as with the larger rate"),
        Row("trains_on_cpu", "train_and_evaluate arrays.bias|train_and_evaluate arrays.fresh|train_and_evaluate arrays.before", "*", "who trains a copy of the model keeps no gradients in this one"),
        Row("trains_on_cpu", "train_and_evaluate arrays.sums", "*", "weights that change after the first epoch, by however much, are still being trained"),
        Row("*", "train_and_evaluate* arrays.train/*", "*scaled*|*slightly*|not a number", "what a picture shows is recognised in any brightness"),
        Row("trains_on_cpu|device_agnostic|eval_mode", "script *", "*", "whether the script runs is for no_cuda_needed to judge"),
        Row("no_cuda_needed", "script values.script/*|script arrays.script/*", "*", "the script has to train, on whatever"),
        Row("", "script values.opened", UNREAD, "looked at where no picture is recognised"),
        Row("trains_on_cpu", "train_and_evaluate/2 values.graphs", "*", "memory that is wasted is a note"),
        Row("no_cuda_needed", "script output", "emptied", "told where the script fails"),
        Row("no_cuda_needed", "script/2 ended", "over a limit|timed out", "defaults may be for faster machines"),
        Row("no_cuda_needed", "script/[23] ranks", "stale", "asked only whether the script runs with fewer options, too"),
        Row("no_cuda_needed", "script values.report:*", "*", REPORTED),
        Row("no_cuda_needed", "script elapsed", "times *", "the seconds of a report are far less than busy machines take, and some round up"),
        Row("device_agnostic", "train_and_evaluate/[23] *", "*", "asked only whether train minds that there is no GPU, or that there is one"),
        Row("eval_mode", "modes values.train/*", f"one missing|one twice|{ORDER}|{MORE}|flipped", "every batch that was trained on was in training mode, however many there are"),
        Row("eval_mode", "modes values.again/*", "*", "a model that stays in evaluation mode is a note"),
        Row("eval_mode|device_agnostic", "* arrays.test/*", SLIGHT, "half precision is off by as much"),
        Row("returns_mean_loss", "script ended|script ranks|script values.status|script values.script/*|script values.report", "*", "whether the script trains and leaves a report is for no_cuda_needed to judge"),
        Row("returns_mean_loss", "script values.report:*", "slightly more|one more", "it is asked how many losses are in it, not how large they are"),
        Row("returns_mean_loss", "train_and_evaluate values.losses.#", SLIGHT, "float32 sums and rounded figures"),
        Row("returns_mean_loss", "train_and_evaluate values.losses_again*", "*", "nothing is said but of the first call's losses before one more"),
    ),
    "lfw_dataset": (
        Row("constructs", "constructs values.attempts.#.opened*", "*", "one image of the folder that was opened is enough"),
        Row("", "constructs values.attempts.*", UNREAD, "looked at where no image was seen to be opened"),
        Row("*", "*.kind|*.labelled|*.dtype|*.shape*", "*", "the fingerprint holds shape, type and values; these are for messages"),
        Row("transform_applied", "transform values.given", "one missing|one twice", "every item is what the table made of its image"),
        Row("transform_applied|workers|robust", "* values.items|workers values.*|robust values.trials.*.items", ORDER, "the order of the images is free"),
        Row("robust", "robust values.trials.*.items", "one twice|one missing", "past the end an image may come again, or nothing"),
        Row("robust", "robust values.trials.truncated.items.#.problem.*", "*", "the error has to name the file, and may say what it likes"),
        Row("lazy", "lazy values.handles*", "*", "a few open files are the interpreter's own"),
        Row("lazy", "lazy arrays.colours", "one value other", "JPEG changes a colour by as much"),
        Row("lazy", "lazy arrays.opens", "one value other", "an item that opened nothing shows by its colour whether it was read"),
        Row("lazy", "lazy arrays.listings", "one value other", "an item may have to look into a folder, as long as it is not all for each"),
        Row("script", "script values.outlets_used", "as a number|missing", "nothing is said of a figure that may have been seen"),
        Row("script", "script* elapsed", "times *", "only the timing is held against a clock, and busy machines take longer"),
        Row("script", "script* values.loaders*", "*", "how a script without -get_timing reads is free, and so is a pass more"),
        Row("", "script values.loaders.#.batch_size", UNREAD, "looked at where a loader has no more batches than are asked for"),
        Row("script", "script* values.opened", "*", "how many images are opened is free, and not known on every machine"),
        Row("script", "script* values.bars", "missing", "numbers of progress bars, which are no timings"),
        Row("script", "script arrays.picture#", "last row missing|one value other", "an image is recognised in a picture, not compared"),
        Row("script", "script/3 *", "*", "of a second timing only the number of workers is told, where it is still 1"),
        Row("script", "script/4 *", "*", "without images a script may end as it likes, if it says something and prints no timings"),
        Row("script", "script/5 *", "*", "asked for help a script may end as it likes, if argparse does not break"),
    ),
    "ddp_train": (
        Row("reshuffles", "train/2 values.boundaries.#", "one more", "there are no batches after its only epoch"),
        Row("fails_fast", "broken ended", "*", "the script is to fail there: asked is that no rank waits, and these raised"),
        Row("starts_equal", "start values.own_buffers", "*", "who turns broadcast_buffers off is only told what that means"),
        Row("no_double_softmax", "into_the_loss *", "*", "a script with a loss of its own kind is not asked, and whatever is no probability may be a logit"),
        Row("single_process", "alone values.trains", "*", "the script, which may see to it, is run then"),
        Row("single_process", "alone/2 *", "*", "on an emulated GPU it is only asked whether something lies elsewhere"),
        Row("*", "train* values.steps*|alone values.steps*", f"{MORE}|as text|{ORDER}", "as many steps as batches; the numbers of a step are not asked for"),
        Row("weights_in_sync|checkpoint", "* arrays.grad#/*", "*", "gradients are for gradients_averaged; here only their names are passed over"),
        Row("sampler_disjoint|reshuffles|steps_per_epoch|global_metrics|uneven_data|shuffle_false_for_eval", "* ranks", "swapped|rank 0 twice", "what the ranks do is the same, or shared out either way"),
        Row("sampler_disjoint|global_metrics|uneven_data", "* values.sizes", ORDER, "how a share is cut into batches is free"),
        Row("uneven_data", "train* values.losses*", "*", "what the mean loss is, is for global_metrics: here only that it is not the mean of uneven shares' means"),
        Row("steps_per_epoch", "train values.steps", "one missing", "shares without padding leave a rank one step short"),
        Row("steps_per_epoch", "train arrays.rows|train values.sizes*", "*", "which items a rank trains on is for sampler_disjoint: here only not all of them on every rank"),
        Row("global_metrics", "train* values.losses", "one twice", "one epoch was asked for, and the first is looked at"),
        Row("checkpoint", "save* values.*|save arrays.rows|resume* values.*|resume arrays.*", "*", "on two ranks only what is held afterwards, on one what was trained; the epoch or the next"),
        Row("checkpoint", "resume ranks", "swapped|rank 0 twice", "all ranks hold the same"),
        Row("checkpoint", "save* arrays.checkpoint", "*", "the file is given to the next run, which finds it wrong"),
        Row("checkpoint", "save arrays.held/*", "*", "rank 0 saves: what it held is held against what was loaded"),
        Row("checkpoint", "resumes ended", "*", "a script that is given a file that cannot be read may end in any way"),
        Row("checkpoint", "goes_on *", "*", "a script that resumes in another way is not asked, and any memory of its optimizer will do"),
        Row("really_communicates", "train arrays.final/*|train arrays.grad#/*", "*", "the gradients or the weights show what the other ranks did"),
        Row("lr_scaling", "first_lr* values.lr", "one twice", "the rate of the first group of parameters is asked for"),
        Row("lr_scaling", "first_lr values.groups", "missing", "there may be one group alone"),
        Row("joins_group", "places *", "*", "a script that comes to no step on emulated GPUs is not asked, and one rank alone may be elsewhere"),
        Row("lr_scaling", "first_lr ended|first_lr/2 ended", "*", "what goes wrong behind the first step, other checks tell"),
        Row("lr_scaling", "first_lr* values.later*", "*", "of the second epoch only that the rate is not that without the flag"),
        Row("fails_fast", "train ended", "over a limit|a rank lost|a rank raised", "one rank's exception ends the run, in whatever way"),
        Row("single_process", "alone values.loss", "*", "that it is right is for global_metrics"),
        Row("single_process", "alone values.accuracy", SLIGHT, "one answer more or less may be right"),
        Row("script|really_communicates", "* loopback_bytes", "not counted", "nothing counts them where there are no namespaces"),
        Row("script", "launch values.output", "*", "told where the script fails"),
        Row("script", "launch values.keys*", "*", "one name of a ResNet's last layer is enough"),
        Row("script", "launch values.outputs*|launch values.batches", "*", "one layer of ten outputs is enough, and without BatchNorm nobody counts"),
        Row("reshuffles", "orders *", "*", "a script that reads its images in another way is not asked"),
        Row("sampler_disjoint", "shares* values.kept", "one more|one less", "how many items are left out is free"),
        Row("script", "launch values.report:*", "*", REPORTED),
        Row("script", "launch values.asked|launch values.unasked|launch values.resumed|launch values.went_on*|launch values.as_documented|launch values.gpus|launch values.failed_with", "*", "who starts processes or goes on in another way is not asked, and a failure that is hidden is told only"),
        Row("really_communicates", "together *", "*", "of a script with a network or an optimizer of its own kind nothing is said"),
        Row("", "alone arrays.grad#/*|resume arrays.grad#/*", UNREAD, "recorded of every training as for gradients_averaged"),
        Row("", "together values.gradients", UNREAD, "asked of a network that stays as it was"),
        Row("", "script_ends values.was", UNREAD, "asked of a script that is still in its group"),
        Row("", "orders values.trains*", UNREAD, "asked where train_one_epoch leaves the model in evaluation mode"),
    ),
    "amp": (
        Row("*", "steps values.#.events*|train values.events*", f"one missing|one twice|{ORDER}|emptied|{FORM}|{MORE}|flipped|*more*|*again", "of all that happened each check asks for its own part"),
        Row("autocast_on", "fetch *", "*", "on an emulated GPU it is only asked whether the batch has to be there before"),
        Row("autocast_on", "steps values.#.types", "one twice", "it is asked which types there are"),
        Row("autocast_on", "until_the_loss *", "*", "a script that fails is for others to judge, and one without AMP on a CPU is run on an emulated GPU as well"),
        Row("autocast_on", "steps/2 *", "*", "a train_step without a default has every call say what it wants"),
        Row("scaler_order", "until_the_loss *", "*", "a script that fails is for others to judge, and what is not fp16 need not be scaled"),
        Row("clip_is_unscaled", "until_the_loss *", "*", "a script that fails is for others to judge, and nothing is said but of one that takes a limit and keeps none"),
        Row("off_is_fp32", "until_the_loss values.answers*|until_the_loss values.events*", "*", "no low type may be there, of batches that a backward followed"),
        Row("off_is_fp32", "until_the_loss values.left_over*", "*", "nothing is said but of gradients that are left over each time"),
        Row("params_fp32", "built* values.parameters", MORE, "it is asked whether two networks have equally many"),
        Row("params_fp32", "built/2 ended", "*", "which other networks there are is not asked"),
        Row("params_fp32", "built* values.filters|until_the_loss values.filters", f"missing|as text|{MORE}", "nothing is said but of a script whose filters are just those of another network"),
        Row("params_fp32", "until_the_loss values.notebook", "flipped", "a notebook need not have a constant for the network"),
        Row("tensorboard", "train values.notebook", "flipped", "a notebook need not have a constant for the folder"),
        Row("*", "steps arrays.*", f"other type|{SLIGHT}", "low precision is off by more, and numbers are compared as float64"),
        Row("params_fp32", "steps arrays.#/step#/*", "scaled by half|turned", "that weights move is asked; how far and where to is for matches_fp32"),
        Row("scaler_order", "steps values.#.scales*", "one missing|one twice|as text", "the last scale is the one that counts"),
        Row("overflow_skipped", "steps* values.#.scales.#", "*", "the scales before and after the overflow count, not the one that follows"),
        Row("overflow_skipped", "steps/2 arrays.*", "other type", "numbers are compared as float64"),
        Row("overflow_skipped", "steps/2 arrays.#/step#/*", "*scaled*|*slightly*|turned", "how the step after it is clipped is judged elsewhere"),
        Row("overflow_skipped", "steps/2 ranks", "stale", "a step that is left out leaves the same with clipping and without"),
        Row("matches_fp32|accuracy_topk", "steps values.#.returned.#.loss|steps values.evaluated.loss", SLIGHT, "bfloat16 is off by as much"),
        Row("accuracy_topk", "steps values.evaluated*", "missing", "a validation of another form need not return these figures"),
        Row("off_is_fp32", "steps values.evaluated_types", "missing|one missing|one twice", "no other type may be there, and a validation of another form has none"),
        Row("*", "train output", "emptied", "told where the script fails"),
        Row("accumulation|eval_no_grad|lr_logged|notebook", "train values.losses*|train arrays.labels", "*", "losses and labels are for tensorboard and wandb to judge"),
        Row("tensorboard|wandb", "train values.losses*", "two swapped|as text|half as much again|slightly more", "what is logged may be the mean of the logits as well, where the loss is another number"),
        Row("tensorboard|wandb", "train arrays.labels", "other type", "a label in another type is the same label"),
        Row("*", "train arrays.logits", "*", "which of them are the largest counts, of whole batches"),
        Row("find_batch", "search_on_gpu *", "*", "it is only asked whether something lies elsewhere"),
        Row("find_batch", "search values.was_one", "*", "who went on after one image was refused may have tried it"),
        Row("find_batch", "search values.tried*", "*", "the largest that fitted counts, and that one did not"),
        Row("find_batch", "search values.ends*", "missing|emptied|one missing|one twice|as text", "a search of another form need not know of ends"),
        Row("find_batch", "search values.listed*", "*", "trials in another form say nothing, nor does one more or less that did not fit"),
        Row("find_batch", "search values.report*", "*", "nothing is said but of a batch that does not fit; the report itself is for exercise 9"),
        Row("find_batch", "search values.search_types*", "*", "nothing is said but of a search in fp32, on a CPU and on a GPU"),
        Row("", "search* values.step_types*", UNREAD, "asked where a search computes in fp32"),
        Row("tensorboard|lr_logged", "train values.event_files*", "*", "files are read whatever they are called"),
        Row("lr_logged", "train arrays.event/*", "*", "whole and undamaged files are for tensorboard to judge"),
        Row("wandb", "train values.wandb_files*|train arrays.wandb/*", "*", "of all that W&B writes the log of the run is read"),
        Row("wandb", "train values.event_files*|train arrays.event/*", "*", "TensorBoard's log says whether lr_logged has the rates to speak of"),
        Row("wandb", "train values.notebook", "flipped", "a notebook need not have a flag for W&B"),
        Row("wandb", "train/2 *", "*", "the run with W&B disabled has to train and to leave no W&B file, and no more"),
        Row("notebook", "train elapsed", "times 10.0", "busy machines take longer"),
        Row("notebook", "train values.step_s", "*", "readings may be of a part of each step, and without an optimizer of torch's nothing is said"),
        Row("notebook", "train values.notebook", "flipped", "whether it was run as a notebook or as a script, for the message"),
        Row("notebook", OF_A_REPORT, "*", REPORTED),
        Row("", "train values.types*|until_the_loss *|fetch *", UNREAD, "recorded of every run as of the others"),
    ),
    "lightning_train": (
        Row("*", "train values.steps", "one twice", "steps beyond the first are for learns to judge"),
        Row("*", "train values.steps.#.loss|train arrays.train#/*", SLIGHT, "low precision is off by as much"),
        Row("training_step_loss|learns", "train values.steps.#.output|train values.steps.#.loss_is|train values.reached*", "*", "in what form the loss came and which layers were reached, for the message"),
        Row("configure_optimizers", "train values.held|train values.trainable", f"{ORDER}|one missing|one twice", "it is asked which parameters the optimizer does not hold"),
        Row("configure_optimizers", "train values.rates*", "one twice|*more*|*again", "any rate above zero will do"),
        Row("no_device_calls", "on_gpu* ended", "*", "an emulated GPU that fails otherwise than by devices is no evidence"),
        Row("no_manual_loop", "train values.steps", f"one missing|{ORDER}", "any step at all says that there are some"),
        Row("no_manual_loop", "train values.automatic", "*", "who writes the loop is left to it"),
        Row("validation_logged", "train* values.logged*", "*", "one name that was logged in validation is enough"),
        Row("validation_logged", "train* values.metrics*", "missing|as text|*more*|*again", "what one rank alone does not log, and what is no part of validation"),
        Row("validation_logged", "train* arrays.val#/*", "*", "any tensor of the network may be the logits that fit, or its answers"),
        Row("validation_logged", "train* values.hashes*|train* arrays.train#/*", "*", "what training answered is asked of an accuracy that is none of validation"),
        Row("learns", "train values.sums*|train values.opened", "*", "weights that change after the first epoch, by however much, are still being trained"),
        Row("validation_logged|learns", "train* values.modes*|train values.frozen", "*", "a network without dropout and batch norm is the same in both modes"),
        Row("trainer_flags", "flags values.*", f"{MORE}|one twice|other text|emptied", "an epoch or a batch more or less, and loggers of any name"),
        Row("*", "script* output", "emptied", "told where the script fails"),
        Row("*", "script* values.sizes*|script* values.items*|script* values.hashes*", "*", "pictures are told apart by their numbers or else by content"),
        Row("*", "script* values.fits|script* values.status", "*", "a fit more, and a status where the probe ended the script"),
        Row("two_ranks", "script values.downloads*", "*", "rank 0 may download"),
        Row("two_ranks", "script values.locks*", "missing", "where one process alone asks for the data, there need be no lock"),
        Row("precision", "script values.types", "one twice", "it is asked which types there are"),
        Row("precision", "script/2 values.types*|script/2 ended|script/2 ranks", "*", "a script may know full precision by another name, and refuse this one"),
        Row("script", "script/3 values.max_epochs", MORE, "up to ten epochs are as good"),
        Row("trainer_flags", "flags values.callbacks", "missing|as text|as a number|other text|emptied", "who sets callbacks by themselves may have no room for others"),
        Row("script", "script/5 ended|script/5 ranks", "*", "a script may refuse a precision that it does not know"),
        Row("script", "script/6 ended|script/6 ranks", "*", "nor need it know --batch-size"),
        Row("script", "script/7 ended|script/7 ranks|script/7 values.strategy", "*", "nor hand on --strategy where there is one device: then it is asked once more"),
        Row("script", "script/8 ended|script/8 ranks", "*", "nor need it know --report"),
        Row("script", "script* values.limit_val", "*", "any share of the pictures, and any number of batches but one, will do for validation"),
        Row("script", "script* values.epochs_from_one*|script* values.loggers*|script* values.limit|script* values.left*", "*", "each of the runs is for one flag, and says nothing of the others"),
        Row("", "flags values.*|script values.*|train values.*", UNREAD, "every Trainer and every fit is described in full, as for the other checks"),
    ),
    "launch": (
        Row("*", "record values.ways*", f"one twice|{ORDER}", "the first way that starts the training counts, nodes come in any order"),
        Row("*", "* values.*.node|* values.*.output|* values.*.program|* values.*.words*|* values.*.folder", "*", "what a script said and where it stood, for the message"),
        Row("*", "record values.ways.#.#.status", MORE, "a script that failed after it had started the training"),
        Row("*", "record values.ways.#.#.records.#.places*", "*", "asked where the endpoint is not given in words"),
        Row("*", "record values.ways.#.#.records.#.facts.node_rank|record values.ways.#.#.records.#.facts.arguments", "*", "c10d numbers the nodes itself; which arguments a script needs is its own affair"),
        Row("*", "record values.ways.#.#.records.#.facts.local_addr", "*", "counts where a launch file says it in so many words"),
        Row("single_node|multi_node|multi_node_runs", "record values.ways.#.#.records.#.late|record values.ways.#.#.records.#.left", "*", "asked of jobs, whose file starts all nodes"),
        Row("single_node", "record values.ways.#.#.records.#.facts.id|record values.ways.#.#.records.#.facts.standalone", "*", "one node needs no id, and may say so in several ways"),
        Row("single_node", "record values.ways.#.#.records.#.facts.script|record values.ways.#.#.records.#.facts.module", "other text|flipped", "a script that is there may have any name: the launch script may have made it"),
        Row("consistent", "record values.*", "*", "how many processes there are is all it asks; the rest is for the other checks"),
        Row("multi_node_runs", "carry_out values.scripts*", "*", "the sum that four workers agree on counts; the scripts are for the message"),
        Row("multi_node_runs", "carry_out values.workers", ORDER, "workers report in any order"),
        Row("", "carry_out values.records*|carry_out values.workers.#.GROUP_RANK|carry_out values.workers.#.LOCAL_WORLD_SIZE", UNREAD, "recorded of every run as of the others"),
        Row("", "record values.ways.#.#.records.#.facts.master_*|record values.ways.#.#.records.#.facts.options", UNREAD, "read of static rendezvous, and of options that torchrun does not know"),
    ),
    "reports": (
        Row("pictures", "picture values.size*", f"{MORE}|{ORDER}", "a picture may have any size that can be read"),
        Row("pictures", "picture arrays.pixels", "last row missing|one value other", "a picture shows something or nothing"),
        Row("spot_rerun", "*", "*", "what a rerun has to show is tried rule by rule in tests/test_reports_rerun.py"),
    ),
}  # fmt: skip

TRAINED = "ddp.json|amp.json|lightning.json"
OF_SEVERAL = f"data_parallel.json|{TRAINED}"
OPTIONAL = "its author may leave it out or say it in other words"
UNJUDGED_OF_REPORTS = (
    # `checks` are the files here, and any check may notice.
    Row("*", ".student.id|.attempt.nonce|.env.os|.env.python|.env.torch", "other text", "any student, any machine"),
    Row("*", ".attempt.argv*", "*", "for a person who runs it again"),
    Row("*", ".env.cpu_logical", MORE, "one core more or less bounds nothing that was measured"),
    Row("*", ".method.order|.method.timed_region", "missing|other text", OPTIONAL),
    Row("*", ".runs", ORDER, "runs are put in order by their times"),
    Row("*", ".runs.#.rep", MORE, "a run that was discarded leaves a gap, and may come again under its number"),
    Row("*", ".runs.#.samples|.runs.#.steps", MORE, "the last batch may be short, and a sampler may fill it up"),
    Row("*", ".claims", f"one missing|one twice|{ORDER}", "any true claims"),
    Row("*", ".claims.#.what", "other text", "a claim of a kind that nobody knows is not looked at, which is told"),
    Row("*", ".claims.#.config.*", "missing", "a setting that is left out has its default, or fits one configuration"),
    Row("*", ".claims.#.unit", "missing", OPTIONAL),
    Row("*", ".claims.#.ddof", "missing|one more", "that the other divisor was used is told, and costs nothing"),
    Row(OF_SEVERAL, ".claims.#.value", "slightly *", "it is rounded to some decimals"),
    Row(TRAINED, ".claims.#.base.*", "missing", "a setting that is left out has its default, or fits one configuration"),
    Row(f"loader.json|{TRAINED}", ".workload.dataset", "missing|other text", OPTIONAL),
    Row("loader.json|ddp.json", ".workload.dataset_n", MORE, "the last batch may be short"),
    Row("loader.json", ".plot.y.#|.plot.yerr.#", "slightly more", "a thousandth cannot be seen in a picture"),
    Row("loader.json", ".plot.file", "missing|other text", "the picture is looked for by the name that is asked for"),
    Row(OF_SEVERAL, ".workload.model", "other text", "a network of one's own may have any name"),
    Row(OF_SEVERAL, ".workload.params|.workload.num_classes|.workload.input_shape*", f"missing|emptied|one missing|one twice|{ORDER}|{MORE}", "bounds what GPUs can do, and this was measured without"),
    Row("data_parallel.json", ".method.warmup_steps", f"missing|{MORE}", "how many is free"),
    Row("data_parallel.json", ".runs.#.step_s*", f"missing|emptied|one missing|one twice|{ORDER}|slightly *|half *", "readings beside those that count; how they vary is judged of many"),
    Row("data_parallel.json", ".not_available*", "one twice|one more|other text", "that there are not several GPUs, in any words"),
    Row(TRAINED, ".workload.optimizer", "missing|other text", OPTIONAL),
    Row(TRAINED, ".runs.#.epochs", "missing|one more", "a run may say how many its steps are"),
    Row("amp.json", ".runs.#.extra*", "missing|emptied|other text", "where it was measured matters where there were two machines"),
    Row("lightning.json", ".env.lightning", "missing|other text", OPTIONAL),
    Row("lightning.json", ".runs.#.config.devices", "missing", "one device is the default"),
)  # fmt: skip
