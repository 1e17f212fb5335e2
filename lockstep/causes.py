"""What usually is behind an exception of a student's code, and what to do about it: by its type and its words."""

from __future__ import annotations

import re
import sys
from collections.abc import Sequence
from pathlib import Path

from lockstep.sandbox.outcome import StudentError
from lockstep.submission import Submission
from lockstep.text import NOT_WRITTEN, PEER_LOST

_NO_GPU = (
    "There is no GPU here: ask torch.cuda.is_available() before anything that needs one, and write .to(device) instead "
    "of .cuda()."
)
_IS_NONE = (
    "Something there is None: a function without `return` gives None, and so does what changes its argument in place, "
    "such as list.append and dist.all_reduce."
)
_NO_NETWORK = "Where this is graded there is no network: nothing can be downloaded or sent."
_PYTHON = f"What is graded runs with Python {sys.version_info[0]}.{sys.version_info[1]}: is that line for a newer one?"
_READ_ONLY = (
    "Write into the folder you are in, or to the path you are given: where this is graded all else can only be read, and "
    "so can the data where each rank has folders of its own."
)
_LABELS = "Labels are class numbers, whole ones: leave them as the data set gives them, or say labels.long()."
_TEXT = "What os.environ holds is text, and so is what argparse hands over without type=int: int(os.environ['LOCAL_RANK'])."
_LOSS_ORDER = (
    "The loss takes what the network gives first, and then the labels: F.cross_entropy(logits, labels)."
)
_SILENT_ASSERT = (
    "Pillow says no more than that of a file that is closed already, whose pixels are asked for: ask within the block, "
    'with Image.open(path) as file: image = file.convert("RGB"). Or is it an assert of your own?'
)
_PICKLE = "No file and no other process is given a function that is defined within another: save model.state_dict() and optimizer.state_dict(), with their brackets, not the objects, and give spawn a function at the left margin of the file."
_ONCE = (
    "What glob, map, filter or (... for ...) give can be gone through once, and has neither numbers nor a length: make a "
    "list of it, sorted(...)."
)
_WHOLE = "A whole number is wanted there: `//` divides and leaves the rest out, `/` always gives a float."
_DTYPES = (
    "Two tensors that meet in that line have different types, as with .half() or .double() of one of them: leave both "
    "float32. Under torch.autocast each operation takes the type that it needs, the model and the batch stay as they are."
)
_NO_ENTRY = (
    "Whatever is asked there, a dict, a checkpoint or the environment, has no entry of that name: is it spelled just as "
    "where it was put in?"
)
_OWN_SAMPLER = (
    "That loader has the sampler that DataLoader makes by itself: DataLoader(dataset, batch_size, sampler=sampler) takes "
    "yours, by that name. The third place is shuffle, and batch_sampler is something else."
)
_SYNC_BATCH_NORM = (
    "SyncBatchNorm is for GPUs: call convert_sync_batchnorm where device.type == 'cuda', and leave the model as it is "
    "elsewhere."
)
_BATCH_IS_A_PAIR = "A batch is a pair, and only its tensors have .to(): images, labels = batch, and then images.to(device) and labels.to(device)."
_PLAIN_LOSS = "loss.item() is a plain number, from which nothing leads back to the weights: backward comes from the loss itself, item() is for what is printed or returned."
_DEVICE = "A device is called 'cpu' or 'cuda', or 'cuda:1' where there are several: what is given there is none of these."

NOT_HERE = (
    "Either the package is not part of this course's environment, or a helper file of yours is not in the folder you "
    "handed in."
)
"""What to do about an import that finds nothing."""

ENDS_PROGRAM = (
    'What ends a program must not run when a file is imported: put it below `if __name__ == "__main__":`.'
)
"""What to do about a file that ends whoever imports it."""

# By type, and by words of the message: an exception's first row counts.
_CAUSES: Sequence[tuple[str, str, str]] = (
    ("NotImplementedError", NOT_WRITTEN, "This part of the template is not filled in yet: look for the TODO there."),
    ("NotImplementedError", 'the required "forward"', "The network has no method forward: is it spelled just so, and indented into the class?"),
    ("NotImplementedError", "Subclasses of Dataset should implement", "The data set has no such method: is it spelled just so, and indented into the class?"),
    ("SystemExit", "", "A function that ends Python ends whoever called it: raise an exception that says what is wrong instead."),
    ("ImportError", "cannot import name", "No such name is there: is it spelled just so, and of this course's version of the package? Does a file of yours have the name of a package, or do two of them import each other? " + _PYTHON),
    ("AttributeError", "partially initialized module", "Has a file of yours the name of the package? Rename it. Or do two of your files import each other? Put what both need into a third one."),
    ("AttributeError", "'JudgesData' object", "The checks fit with a data module of their own. Of yours it has what that holds when it is made without arguments and setup('fit') is through. Hand what the network needs to the network, by an argument that has a default."),
    ("AttributeError", "'NoneType' object", _IS_NONE),
    ("KeyError", "RANK", "RANK, LOCAL_RANK and WORLD_SIZE are only set by torchrun. Use os.environ.get('RANK', 0) and the like, so that the file also works without it."),
    ("KeyError", "WANDB_API_KEY", "Nobody has logged in where this is graded, and W&B is offline there, for which it needs no key: leave wandb.login() out, or ask for os.environ.get('WANDB_API_KEY')."),
    ("KeyError", "WORLD_SIZE", "WORLD_SIZE is only set by torchrun: use os.environ.get('WORLD_SIZE', 1)."),
    ("StudentMistake", "there is no ", "Hand the file in under the name that the exercise asks for."),
    ("StudentMistake", "returned None", "A function that comes to its end without `return` gives None: return what the exercise asks for."),
    ("StudentMistake", "was not read: it is larger", "Clear the outputs of a notebook, and keep data in files of their own."),
    ("StudentMistake", "was not read", "Hand it in as a plain file, in a folder that holds your own work alone."),
    ("StudentMistake", "", "Compare with what the exercise asks for."),
    ("MemoryError", "", "Python ran out of room for reading the file: an expression in it is nested thousands deep."),
    ("RecursionError", "during compilation", "An expression in the file is nested or chained thousands deep."),
    ("ModuleNotFoundError", "", NOT_HERE),
    ("SourceError", "is larger than", "Keep the code in it: data, weights and printed results belong in files of their own, which it reads and writes."),
    ("SourceError", "UTF-", "Open it in an editor, and save it with the encoding UTF-8: in VS Code the encoding stands at the bottom right."),
    ("FileNotFoundError", "' -> '", "os.replace(source, target) wants the source to be there: are the two swapped, or has another process renamed it already? One rank writes and renames, `if dist.get_rank() == 0:`."),
    ("OSError", "Invalid cross-device link", "A file is renamed within one file system, and /tmp is another: write the second file beside the first, f'{path}.part', and then os.replace(f'{path}.part', path)."),
    ("AttributeError", "to be string, path, or a file-like object", "torch.save takes what is to be saved first, and then the file, torch.save(checkpoint, path); torch.load takes the path."),
    ("FileNotFoundError", "directory: '/", "Use the path you are given; paths of your own machine do not exist where this is graded."),
    ("FileNotFoundError", "directory: ", "A path without a / in front begins in the folder that the file is run in: is what is read there part of what you handed in? What is written needs its folder first: Path(path).parent.mkdir(parents=True, exist_ok=True)."),
    ("FileNotFoundError", "", "Nothing was found where it was looked for: print the path, and what lies there, list(Path(path).iterdir())."),
    ("UnpicklingError", "Weights only load failed", "With weights_only=True torch.load reads tensors, numbers, texts, lists and dicts alone, as torch.save writes them by default: save state_dict()s and plain numbers, and leave pickle_protocol out."),
    ("StopIteration", "", "Something was asked for its next item and had none: is the data set empty? An iterator can be gone through once; what items are taken from by their number is a list."),
    ("RuntimeError", "marked as ready twice", "A parameter was used twice in one forward of DistributedDataParallel: wrap the model once, and call the wrapped model once per step."),
    ("ValueError", "Default process group has not been initialized", "No group is joined there, and collectives, DistributedSampler and DistributedDataParallel need one: call init_process_group before them, and destroy_process_group after the last. Without torchrun it is init_process_group(backend, store=dist.HashStore(), rank=0, world_size=1), or none of them is used."),
    ("RuntimeError", "is invalid for input of size", "The last batch may hold fewer items than the others: take sizes from the tensor, as in x.view(x.size(0), -1)."),
    ("ValueError", "world size cannot be 0", "How many ranks there are says WORLD_SIZE, and RANK counts them from 0: are the two swapped? The number of GPUs, torch.cuda.device_count(), is 0 where there are none."),
    ("TypeError", "Expected timeout argument", "What init_process_group is given gets its name, init_process_group(backend, init_method=..., rank=rank, world_size=world_size): the third place is timeout, which is a timedelta(seconds=...)."),
    ("RuntimeError", "rank < size", "That rank is not in the group: its size and the ranks in it come from WORLD_SIZE and RANK, neither is written out."),
    ("ValueError", "environment variable MASTER_", "Without torchrun nobody sets that, and one process needs no address: init_process_group(backend, store=dist.HashStore(), rank=0, world_size=1), or no group at all."),
    ("ValueError", "rendezvous: ", "file:// and tcp:// read neither RANK nor WORLD_SIZE: init_process_group(..., rank=int(os.environ['RANK']), world_size=int(os.environ['WORLD_SIZE'])) works with any init_method."),
    ("ValueError", "Expected more than 1 value per channel", "Batch norm has no variance of one item alone, and in training mode it wants one: model.eval() before evaluating. In training leave out a last batch of one. Where all batches are of one, hand the batch size on, DataLoader(dataset, batch_size, ...)."),
    ("ValueError", "batch_size should be a positive integer", "A DataLoader takes a whole number: hand on the batch size that is given. It is that of one rank, and the sampler shares the data out; `/` would make a float of it."),
    ("ValueError", "device_ids and output_device arguments only work", "device_ids and output_device are numbers of GPUs: device_ids=[device.index] if device.type == 'cuda' else None, and no output_device."),
    ("TypeError", "Expected parameter `tensor`", "Collectives take tensors: total = torch.tensor(value, device=device), then all_reduce it, then total.item()."),
    ("ValueError", "mutually exclusive with shuffle", "A sampler shuffles by itself: hand shuffle to DistributedSampler, and leave it out of the DataLoader."),
    ("RuntimeError", "invalid output tensor list", "all_gather fills tensors that are there already, one for each rank and like the one that is sent: gathered = [torch.zeros_like(x) for _ in range(dist.get_world_size())]. For a sum all_reduce is enough."),
    ("ValueError", "Invalid rank", "DistributedSampler takes num_replicas and rank from the process group: leave both out."),
    ("ValueError", "optimizer got an empty parameter list", "The module has no parameters: layers in a plain list or dict are not found. Use nn.ModuleList, nn.ModuleDict or nn.Sequential, or assign each layer to self."),
    ("OutOfMemoryError", "CUDA out of memory", "Catch torch.OutOfMemoryError around each step of the search, and go on with a smaller batch. What it comes to, and what is trained with afterwards, has to be a batch that fitted."),
    ("DistNetworkError", "EADDRINUSE", "Rank 0 listens at MASTER_PORT, and somebody does already. Does more than one process take itself for rank 0, as with LOCAL_RANK on two nodes? Is the port written into the file, where another job uses it, too?"),
    ("TypeError", "inject a (distributed) sampler", "Derive the batch sampler from torch.utils.data.BatchSampler, or say Trainer(use_distributed_sampler=False) and share the items out in it, by rank."),
    ("URLError", "", "Where this is graded there is no network: nothing can be downloaded. Begin with weights=None, and read the data from the folder that is given."),
    ("ConnectionError", "", _NO_NETWORK),
    ("gaierror", "", _NO_NETWORK),
    ("RuntimeError", "Dataset not found", "The data set lies in the folder that the option names: hand it on as it is, args.data or args.training_data, with nothing behind it."),
    ("EOFError", "reading a line", "Nobody is at the keyboard when this is graded: take what input() asks for as an option, with argparse."),
    ("RuntimeError", "Found no NVIDIA driver", _NO_GPU),
    ("RuntimeError", "No CUDA GPUs are available", _NO_GPU),
    ("RuntimeError", "Attempting to deserialize object on a CUDA device", "The file names a GPU that is not here: torch.load(path, map_location=device)."),
    ("AssertionError", "Torch not compiled with CUDA enabled", _NO_GPU),
    ("RuntimeError", "grad can be implicitly created only for scalar outputs", "backward() wants one number: leave out reduction='none', so that the loss is the mean of the batch."),
    ("RuntimeError", "does not require grad and does not have a grad_fn", "Nothing leads back from the loss to the parameters: no detach(), .item(), .data, torch.tensor(loss) or torch.no_grad() on the way, and compute the loss from the model's output. Were the weights frozen with requires_grad_(False), as for an evaluation?"),
    ("RuntimeError", "backward through the graph a second time", "Call backward once for each forward. A loss that is kept or added up over batches keeps its graph as well: add loss.item()."),
    ("RuntimeError", "modified by an inplace operation", "Something is overwritten that backward still needs: write x = x + y instead of x += y, and leave out inplace=True."),
    ("RuntimeError", "Can't call numpy() on Tensor that requires grad", "For printing and counting take loss.item(), or tensor.detach().cpu().numpy()."),
    ("NotImplementedError", "log_softmax", _LOSS_ORDER),
    ("RuntimeError", "log_softmax", _LOSS_ORDER),
    ("RuntimeError", "only batches of spatial targets supported", "The loss wants the network's output, (batch, classes): is it given the pictures, or an output that still has height and width?"),
    ("RuntimeError", "expected target dtype to be Long", _LABELS),
    ("RuntimeError", "expected scalar type Long", _LABELS),
    ("RuntimeError", "same dtype", _DTYPES),
    ("RuntimeError", "expected scalar type", _DTYPES),
    ("RuntimeError", "must match the size of tensor", "Two tensors whose shapes do not fit meet in that line: print both shapes in front of it. A tensor with one value for each row gets a dimension to be spread over by x[:, None]."),
    ("RuntimeError", "multi-target not supported", "Labels are one class number for each item, in one dimension: labels.squeeze(1) takes away a second one. Are these the labels, or the pictures?"),
    ("ValueError", "to match target batch_size", "The network gives another number of rows than there are labels: was the batch's dimension flattened as well, or its size written out? x.flatten(1) keeps it."),
    ("RuntimeError", "class probabilities, got Long", "What the network gives and the labels have one shape there. The loss takes the output as it is, (batch, classes), no argmax of it, and labels as class numbers, no one_hot of them."),
    ("IndexError", "list index out of range", "The list has no such item: they are numbered from 0, so that the last is len(x) - 1. Is it empty, or the number one too large?"),
    ("IndexError", "Dimension out of range", "The tensor has fewer dimensions than that: `dim` counts them from 0. Print its shape. Are two arguments mixed up?"),
    ("IndexError", "Target ", "There are labels that the network has no output for: they count from 0, and the last layer needs one output for each class."),
    ("RuntimeError", "channels, but got", "The pictures have another number of channels than the first convolution was made for: print x.shape in front of it, (batch, channels, height, width)."),
    ("RuntimeError", "cannot be converted to Scalar", "item() wants a tensor of one number: take the mean or the sum first, or tolist()."),
    ("RuntimeError", "Boolean value of Tensor", "A comparison of tensors gives a tensor: say .all() or .any() of it, or torch.equal(a, b)."),
    ("NotImplementedError", "could not infer output dtype", "Whole numbers and booleans have no mean: turn them into floats first, (guesses == labels).float().mean()."),
    ("ValueError", "initialize the default process group twice", "init_process_group was called a second time: setup() has joined the group already, and all of the file uses that one."),
    ("RuntimeError", "before the current process has finished its bootstrapping", 'Whoever starts processes is imported by each of them: put what starts them below `if __name__ == "__main__":`.'),
    ("RuntimeError", "shapes cannot be multiplied", "The layer is given another number of features than it was made for: print x.shape in front of it. Between convolutions and a Linear there is a flatten, nn.Flatten() or x.flatten(1). A last layer of your own takes as many as the one in its place, model.fc.in_features of a ResNet."),
    ("RuntimeError", "Expected to have finished reduction in the prior iteration", "DistributedDataParallel waits for the gradient of every parameter: some had no part in the loss, or its forward was called twice before backward."),
    ("RuntimeError", "loading state_dict", "The names in the file are not those of the model. With `module.` in front they are those of a wrapped model: save and load model.module.state_dict(). Or was another model saved?"),
    ("AttributeError", "before Module.__init__() call", "The first line of __init__ has to be super().__init__()."),
    ("AttributeError", "'DistributedDataParallel' object has no attribute", "The wrapper has only what every module has: your own model is its attribute, model.module."),
    ("AttributeError", "object has no attribute 'module'", "Only the wrapper has .module, and here the model is not wrapped: plain = model.module if isinstance(model, DistributedDataParallel) else model."),
    ("AttributeError", "Can't pickle", _PICKLE),
    ("AttributeError", "Can't get local object", _PICKLE),
    ("PicklingError", "Can't pickle", _PICKLE),
    ("AttributeError", "'RandomSampler' object has no attribute", _OWN_SAMPLER),
    ("AttributeError", "'SequentialSampler' object has no attribute", _OWN_SAMPLER),
    ("AttributeError", "'tuple' object has no attribute 'to'", _BATCH_IS_A_PAIR),
    ("AttributeError", "'tuple' object has no attribute", "A tuple is there. A function that ends with `return a, b` gives both as one: take them apart where it is called, `a, b = f()`, or return what the exercise asks for alone. A comma at the end of a line makes one as well."),
    ("ValueError", "SyncBatchNorm layers only work with GPU", _SYNC_BATCH_NORM),
    ("ValueError", "SyncBatchNorm expected input tensor to be on", _SYNC_BATCH_NORM),
    ("AttributeError", "has no attribute 'set_epoch'", "set_epoch belongs to the DistributedSampler: loader.sampler.set_epoch(epoch)."),
    ("TypeError", "pic should be PIL Image", "ToTensor was given a tensor: what is passed in as the transform makes one already, so hand it the picture."),
    ("TypeError", "found <class 'PIL.", "A DataLoader makes batches of tensors, not of pictures: give the data set a transform that ends with ToTensor()."),
    ("TypeError", "os.PathLike object, not NoneType", "A path is None there: is it that of an option which was not given? Ask first: if args.report: ..."),
    ("TypeError", "NoneType", _IS_NONE),
    ("TypeError", "img should be Tensor Image", "Normalize wants a tensor and was given a picture: ToTensor() comes before it in transforms.Compose."),
    ("TypeError", "'list' object is not callable", "A list is no function: several transforms become one by transforms.Compose([...]), and an item of a list is taken with x[0]."),
    ("TypeError", "'generator'", _ONCE),
    ("TypeError", "'map'", _ONCE),
    ("TypeError", "'filter'", _ONCE),
    ("TypeError", "'float' object cannot be interpreted as an integer", _WHOLE),
    ("TypeError", "be tuple of ints", _WHOLE),
    ("TypeError", "expand() takes 1 positional argument but", _WHOLE),
    ("ValueError", "must be a positive integer, not", _WHOLE),
    ("TypeError", "for image data", "imshow wants the channels last, (height, width, channels): image.permute(1, 2, 0) of a tensor."),
    ("ValueError", "too many values to unpack", "There is more on the right than there are names on the left: a dict is gone through with .items(), and a batch holds as many parts as one item of the data set."),
    ("ValueError", "does not match the world size", "Lightning counts devices x nodes and finds another number of processes: hand on what the script is given, Trainer(devices=args.devices)."),
    ("AttributeError", "'str' object has no attribute 'finalize'", "A logger is an object, CSVLogger(...), not its name."),
    ("MisconfigurationException", "`train_dataloader` must be implemented", "Nothing was given to train on: trainer.fit(model, datamodule=data), or fit(model, train_loader, val_loader)."),
    ("MisconfigurationException", "Unknown configuration for model optimizers", "configure_optimizers returns an optimizer: torch.optim.Adam(self.parameters(), lr=...)."),
    ("TypeError", "'builtin_function_or_method'", "A method is written without its brackets, which call it: loss.item(), not loss.item."),
    ("TypeError", "'type' object does not support the context manager", "A class is written without its brackets: with torch.no_grad():, not with torch.no_grad:."),
    ("TypeError", "unhashable type: 'dict'", "A dict of settings is handed over with two stars: Trainer(**settings)."),
    ("TypeError", "Path' object is not iterable", "A path is no list: path.iterdir() is what lies in a folder, path.rglob('*.jpg') with all folders below it."),
    ("TypeError", "object is not iterable", "That cannot be looped over: a number wants range(n); an optimizer and clip_grad_norm_ want model.parameters(), not the model. Is it what a function returned, which should return something else? Or are two arguments mixed up?"),
    ("AssertionError", "Unknown backend type", "The backends are 'nccl' for GPUs and 'gloo' for processors."),
    ("RuntimeError", "must be an integer. ", _TEXT),
    ("TypeError", "must be int, not str", _TEXT),
    ("AttributeError", "'str' object has no attribute 'type'", "That is the name of a device: only torch.device(name) has .type and .index."),
    ("RuntimeError", "Invalid device string", _DEVICE),
    ("RuntimeError", "device type at start of device string", _DEVICE),
    ("ValueError", "Expected a torch.device with a specified index", "Say which GPU: torch.device('cuda', local_rank), or its number alone."),
    ("UnboundLocalError", "", "Whatever a function assigns anywhere is its own in all of it: was it assigned on this way? Is it the name of something outside as well?"),
    ("PermissionError", "Permission denied: '", _READ_ONLY),
    ("OSError", "Read-only file system", _READ_ONLY),
    ("ValueError", "Expected `device_type` of type `str`", "torch.autocast wants the name of a kind of device, 'cpu' or 'cuda': torch.autocast(device.type, ...)."),
    ("TypeError", "set_autocast_enabled()", "What autocast is given for `enabled` is neither True nor False: are two arguments mixed up where the function is called?"),
    ("ValueError", "outputs must be a Tensor or an iterable of Tensors", "scaler.scale wants the loss itself: scaler.scale(loss).backward(), with neither loss.item() nor loss.backward() between the brackets."),
    ("AttributeError", "'float' object has no attribute 'backward'", _PLAIN_LOSS),
    ("RuntimeError", "selected index k out of range", "topk is asked for more than there are along that dimension: of logits, (batch, classes), the k largest of each row are topk(k, dim=1)."),
    ("ValueError", "'num_classes' expected value 1000", "Weights that were trained on ImageNet have its 1000 classes, and there is no network here to load them from: weights=None."),
    ("TypeError", "to() received an invalid combination of arguments", "to() wants a device or a type, and is given something else: are two arguments mixed up where the function is called?"),
    ("TypeError", "ReduceLROnPlateau.step() missing", "ReduceLROnPlateau watches a value, which it wants to be told: scheduler.step(loss), usually once an epoch."),
    ("NotImplementedError", "but numpy array or torch tensor are expected", "add_scalar takes one number: scheduler.get_last_lr() is a list, with a rate for each group of parameters, and the first is get_last_lr()[0]."),
    ("UsageError", "is finished", "Nothing can be logged after finish(): call it once, when the last epoch is over."),
    ("ValidationError", "validation error for Settings", "wandb.init does not know that value; of mode it knows 'online', 'offline' and 'disabled': hand the flag on, mode=args.wandb."),
    ("AttributeError", "'Tensor' object has no attribute 'param_groups'", "scaler.unscale_ and scaler.step take the optimizer, scaler.scale takes the loss."),
    ("AttributeError", "'list' object has no attribute 'to'", _BATCH_IS_A_PAIR),
    ("Error", "You must call wandb.init()", "wandb.init(...) starts a run, and comes before anything is logged."),
    ("UsageError", "API key", "W&B asks for no login where it is offline: hand the flag on, wandb.init(..., mode=args.wandb)."),
)  # fmt: skip

# A script that was given options, and any word by which a source may read them.
_WITH_OPTIONS = re.compile(r"running `python ([\w./]+\.py) -")
_READS_OPTIONS = re.compile(
    rb"argv|ArgumentParser|parse_\w{0,30}args|CLI\b|"
    rb"^[^\S\n]*(?:import|from)\s+(?:absl|click|docopt|fire|getopt|hydra|optparse|plac|simple_parsing|typer|tyro)\b",
    re.MULTILINE,
)
# Options of the source's own in the place of those that it was started with, as notebooks have them.
_SETS_ARGV = re.compile(rb"^sys\.argv\s*=\s*\[", re.MULTILINE)
_PARSES_OWN = re.compile(rb"\.parse_(?:known_)?args\(\s*(?:args\s*=\s*)?(?:\[[^\]()]*\]|\(\)|\"\"|'')\s*\)")
_PARSES_GIVEN = re.compile(rb"\.parse_(?:known_)?args\(\s*\)")
# How Python words it where an option's text meets something that wants a number.
_TEXT_FOR_NUMBER = re.compile(r"\bstr\b")

# What Python raises where it cannot read a file at all, and how it says where.
_UNREADABLE = ("SyntaxError", "IndentationError", "TabError")
_IN_LINE = re.compile(r"\(([^()/]{1,200}), line (\d{1,6})\)")
_CONFLICT = "<<<<<<<"
_UNKNOWN_NAME = re.compile(r"\bname '(\w{1,60})' is not defined")
_OF_JSON = ("null", "true", "false")
# How it is worded where a file was not handed in, or was left out; others were handed in and cannot be read.
_NOT_THERE = ("there is no ", "was not read")
# How Python words it where a module that is there lacks a name.
_NOT_IN_MODULE = re.compile(r"\bcannot import name '\w{1,60}' from '(\w{1,60})'")
# How Python words it where a function takes other arguments than it is given.
_ARGUMENTS = re.compile(
    r"\(\) (missing \d+ required|got an unexpected keyword argument|got multiple values for|takes [^\n]{1,60}arguments? but)"
)
_OTHER_ARGUMENTS = (
    "That is how the exercise has it called: keep the names and the order of its arguments, and give arguments of your "
    "own a default."
)
_OWN_ARGUMENTS = (
    "That line calls something with other arguments than it takes: compare it with the line that begins with `def`, or with "
    "the documentation."
)


def advice(error: StudentError, submission: Submission) -> str:
    """What the author of the code should look at or do next."""
    if unread := _unread_options(error.phase, submission):
        return unread
    if usual := usual_cause(error, submission):
        return usual
    if is_peer_lost(error):
        return "Another rank ended while this one still waited for it: every rank must make the same collectives."
    if (
        error.type == "TypeError"
        and _WITH_OPTIONS.match(error.phase)
        and _TEXT_FOR_NUMBER.search(error.message)
    ):
        return "Is that an option? What argparse hands over is text, unless the option has type=int or type=float."
    if not error.frames and not error.phase:
        return "Does your code put something of its own in the place of a function or class of torch's or Python's?"
    if not error.frames:
        return "Run the same call by hand with small data: Python then shows all the lines that led there."
    return "Run the same call by hand with small data; the line above is where it stopped."


def usual_cause(error: StudentError, submission: Submission) -> str:
    """What is usually behind such an exception, wherever it was raised; empty where nothing is known."""
    importing = error.phase.startswith("importing ")
    if error.type == "AssertionError" and not error.message:
        return _SILENT_ASSERT
    if error.type == "SystemExit" and importing:
        return ENDS_PROGRAM
    if error.type == "ImportError" and (importing_back := _importing_back(error)):
        return importing_back
    if (
        error.type == "StudentMistake"
        and importing
        and not any(words in error.message for words in _NOT_THERE)
    ):
        return "Open it where you wrote it, see whether all of it is there, and save it once more."
    for kind, words, hint in _CAUSES:
        if error.type == kind and words in error.message:
            return hint
    if error.type in _UNREADABLE:
        return _unreadable(error, submission)
    if error.type == "KeyError" and (error.phase or error.frames):
        return _NO_ENTRY
    if error.type == "NameError" and (unknown := _UNKNOWN_NAME.search(error.message)):
        in_notebook = bool(error.frames) and error.frames[-1].file in submission.notebooks
        return _unknown_name(unknown[1]) + (
            " Or does the cell that defines it stand further down?" if in_notebook else ""
        )
    if error.type == "TypeError" and error.phase and _ARGUMENTS.search(error.message):
        return _OWN_ARGUMENTS if error.frames else _OTHER_ARGUMENTS
    return ""


def _unreadable(error: StudentError, submission: Submission) -> str:
    """What to do about a file of which no line has run, because Python cannot read it."""
    line = _source_line(error, submission)
    if line.startswith(("!", "%")):
        return "Lines that begin with ! or % are Jupyter's, and Python cannot read them: leave them out of a .py file."
    if line.startswith(_CONFLICT):
        return (
            "git has left this mark, and both versions around it: keep one of them, and delete git's marks."
        )
    if "expected an indented block" in error.message:
        return "There is no code in that block, and comments are none: indent the lines that belong to it, or write `pass`."
    if error.type != "SyntaxError":
        return "Indent every line of a block alike, and with spaces alone: most editors can turn tabs into spaces."
    return (
        "Python could not read the file, so that nothing in it ran. Is there a bracket, a quote or a colon missing in "
        f"that line, or in the one before it? {_PYTHON}"
    )


def _importing_back(error: StudentError) -> str:
    """What to do where a file that is being imported imports one that imports it; empty where it is not so."""
    unknown, place = _NOT_IN_MODULE.search(error.message), error.frames[-1] if error.frames else None
    if unknown is None or place is None or error.phase != f"importing {unknown[1]}.py":
        return ""
    if place.file == f"{unknown[1]}.py":
        return ""
    return (
        f"{unknown[1]}.py and {place.file} import each other: when {place.file} asks for that name, {unknown[1]}.py has "
        f"run no further than to where it imports {place.file}. Put what both need into a third file."
    )


def _source_line(error: StudentError, submission: Submission) -> str:
    named = _IN_LINE.search(error.message)
    if named is None:
        return ""
    source = next((data for path, data in submission.files.items() if Path(path).name == named[1]), b"")
    lines = source.decode(errors="replace").splitlines()
    return "".join(lines[int(named[2]) - 1 : int(named[2])]).strip()


def _unknown_name(name: str) -> str:
    if name in _OF_JSON:
        return "That is how a notebook is stored, not Python: hand the file in under its own name, which ends in .ipynb."
    return (
        f"Nothing has defined {name} where that line runs. Is it misspelled, or an import missing? What is set in another "
        'function, or below `if __name__ == "__main__":`, has to be handed in as an argument.'
    )


def is_peer_lost(error: StudentError) -> bool:
    """Whether the error says no more than that another rank was gone."""
    return any(words in error.message for words in PEER_LOST)


def _unread_options(phase: str, submission: Submission) -> str:
    """What to do where a script was given options and nothing that was handed in could read them; else empty."""
    match = _WITH_OPTIONS.match(phase)
    if match is None or match[1] not in submission.files:
        return ""
    script = submission.files[match[1]]
    notebook = match[1] in submission.notebooks
    how = "parser.parse_known_args()[0], which also works in Jupyter" if notebook else "parser.parse_args()"
    own = (
        "sets sys.argv"
        if _SETS_ARGV.search(script)
        else "has parse_args() read a list of its own"
        if _PARSES_OWN.search(script) and not _PARSES_GIVEN.search(script)
        else ""
    )
    if own:
        return f"{match[1]} {own}, so it never sees the options it is started with. Read those with {how}."
    # Its helpers may read them; who hands in everything has other scripts besides.
    named = (data for path, data in submission.files.items() if Path(path).stem.encode() in script)
    if any(_READS_OPTIONS.search(data) for data in (script, *named)):
        return ""
    return (
        f"Nothing in {match[1]} reads options, so it ran as it does without any. Read those that the exercise lists "
        f"with argparse, and {how}."
    )
