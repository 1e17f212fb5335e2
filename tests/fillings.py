"""Honest students who fill in one template: six hands, each with habits of its own, none having seen another's.

The shorter the task, the more alike: this is where a comparison of sources has to be careful.
"""

from __future__ import annotations

from pathlib import Path

TEMPLATE = Path(__file__).resolve().parent.parent / "student_template" / "fashion_trainer.py"

_INSTEAD = 'raise NotImplementedError("fashion_trainer.py is not written yet")'

# For each hand what replaces the four gaps: get_device, train, evaluate, and the lines in main.
HANDS: dict[str, tuple[str, str, str, str]] = {
    "by the tutorial": (
        """return torch.device("cuda" if torch.cuda.is_available() else "cpu")""",
        """model.to(device)
    model.train()
    criterion = nn.CrossEntropyLoss()
    optimizer = torch.optim.Adam(model.parameters(), lr=lr)
    losses = []
    for epoch in range(epochs):
        running_loss = 0.0
        for images, labels in loader:
            images, labels = images.to(device), labels.to(device)
            optimizer.zero_grad()
            outputs = model(images)
            loss = criterion(outputs, labels)
            loss.backward()
            optimizer.step()
            running_loss += loss.item() * images.size(0)
        losses.append(running_loss / len(loader.dataset))
    return losses""",
        """model.to(device)
    model.eval()
    correct = 0
    total = 0
    with torch.no_grad():
        for images, labels in loader:
            images, labels = images.to(device), labels.to(device)
            outputs = model(images)
            _, predicted = torch.max(outputs.data, 1)
            total += labels.size(0)
            correct += (predicted == labels).sum().item()
    return correct / total""",
        """losses = train(model, train_loader, device, args.epochs, args.lr)
    accuracy = evaluate(model, test_loader, device)""",
    ),
    "by the book": (
        """if torch.cuda.is_available():
        return torch.device("cuda")
    return torch.device("cpu")""",
        """loss_fn = nn.CrossEntropyLoss()
    opt = torch.optim.Adam(model.parameters(), lr)
    model = model.to(device)
    history = []
    for _ in range(epochs):
        model.train()
        total, seen = 0.0, 0
        for x, y in loader:
            x = x.to(device, non_blocking=True)
            y = y.to(device, non_blocking=True)
            loss = loss_fn(model(x), y)
            opt.zero_grad(set_to_none=True)
            loss.backward()
            opt.step()
            total += loss.detach() * len(x)
            seen += len(x)
        history.append(float(total / seen))
    return history""",
        """model.eval().to(device)
    hits, seen = 0, 0
    with torch.inference_mode():
        for x, y in loader:
            pred = model(x.to(device)).argmax(dim=1)
            hits += int((pred == y.to(device)).sum())
            seen += len(y)
    return hits / seen""",
        """losses = train(model, train_loader, device, epochs=args.epochs, lr=args.lr)
    accuracy = evaluate(model, test_loader, device)""",
    ),
    "with functional": (
        """use_cuda = torch.cuda.is_available()
    return torch.device("cuda" if use_cuda else "cpu")""",
        """model.to(device).train()
    optimizer = torch.optim.Adam(model.parameters(), lr=lr)
    mean_losses: list[float] = []
    for epoch in range(1, epochs + 1):
        loss_sum = 0.0
        for data, target in loader:
            data, target = data.to(device), target.to(device)
            optimizer.zero_grad()
            output = model(data)
            loss = torch.nn.functional.cross_entropy(output, target, reduction="sum")
            (loss / len(data)).backward()
            optimizer.step()
            loss_sum += loss.item()
        mean_losses.append(loss_sum / len(loader.dataset))
        print("Epoch", epoch, mean_losses[-1])
    return mean_losses""",
        """model.to(device).eval()
    correct = 0
    with torch.no_grad():
        for data, target in loader:
            data, target = data.to(device), target.to(device)
            output = model(data)
            pred = output.argmax(dim=1, keepdim=True)
            correct += pred.eq(target.view_as(pred)).sum().item()
    return correct / len(loader.dataset)""",
        """losses = train(model, train_loader, device, args.epochs, args.lr)
    accuracy = evaluate(model, test_loader, device)""",
    ),
    "with enumerate": (
        """device = "cpu"
    if torch.cuda.is_available():
        device = "cuda:0"
    return torch.device(device)""",
        """criterion = nn.CrossEntropyLoss()
    model.to(device)
    optimizer = torch.optim.Adam(model.parameters(), lr=lr)
    model.train()
    epoch_losses = []
    for epoch in range(epochs):
        batch_losses = []
        batch_sizes = []
        for i, (inputs, labels) in enumerate(loader):
            inputs = inputs.to(device)
            labels = labels.to(device)
            optimizer.zero_grad()
            preds = model(inputs)
            loss = criterion(preds, labels)
            loss.backward()
            optimizer.step()
            batch_losses.append(loss.item())
            batch_sizes.append(inputs.shape[0])
        weighted = sum(l * n for l, n in zip(batch_losses, batch_sizes))
        epoch_losses.append(weighted / sum(batch_sizes))
    return epoch_losses""",
        """model.eval()
    n_correct, n_samples = 0, 0
    with torch.no_grad():
        for inputs, labels in loader:
            inputs = inputs.to(device)
            labels = labels.to(device)
            outputs = model(inputs)
            predicted = torch.argmax(outputs, dim=1)
            n_correct += (predicted == labels).sum().item()
            n_samples += labels.shape[0]
    return n_correct / n_samples""",
        """losses = train(model, train_loader, device, args.epochs, args.lr)
    accuracy = evaluate(model, test_loader, device)""",
    ),
    "terse": (
        """return torch.device(("cpu", "cuda")[torch.cuda.is_available()])""",
        """model.to(device).train()
    adam, ce = torch.optim.Adam(model.parameters(), lr), nn.CrossEntropyLoss()

    def one_epoch():
        s = n = 0
        for x, y in loader:
            l = ce(model(x.to(device)), y.to(device))
            adam.zero_grad(), l.backward(), adam.step()
            s, n = s + l.item() * len(y), n + len(y)
        return s / n

    return [one_epoch() for _ in range(epochs)]""",
        """model.to(device).eval()
    with torch.no_grad():
        right = [(model(x.to(device)).argmax(1).cpu() == y) for x, y in loader]
    return torch.cat(right).float().mean().item()""",
        """losses, accuracy = train(model, train_loader, device, args.epochs, args.lr), evaluate(model, test_loader, device)""",
    ),
    "careful": (
        """# MPS would be nice as well, but the exercise says GPU or CPU
    if torch.cuda.is_available():
        return torch.device("cuda", torch.cuda.current_device())
    else:
        return torch.device("cpu")""",
        """model = model.to(device)
    criterion = nn.CrossEntropyLoss()
    optimizer = torch.optim.Adam(model.parameters(), lr=lr)
    losses = []
    for epoch in range(epochs):
        model.train()
        running_loss = 0.0
        n_items = 0
        for batch in loader:
            images = batch[0].to(device)
            labels = batch[1].to(device)

            # forward
            logits = model(images)
            loss = criterion(logits, labels)

            # backward
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()

            running_loss += loss.item() * labels.size(0)
            n_items += labels.size(0)
        losses.append(running_loss / n_items)
    return losses""",
        """was_training = model.training
    model = model.to(device)
    model.eval()
    correct = torch.zeros((), dtype=torch.long, device=device)
    total = 0
    with torch.no_grad():
        for batch in loader:
            images = batch[0].to(device)
            labels = batch[1].to(device)
            logits = model(images)
            correct += (logits.argmax(dim=-1) == labels).sum()
            total += labels.size(0)
    model.train(was_training)
    return correct.item() / total""",
        """losses = train(model, train_loader, device, epochs=args.epochs, lr=args.lr)
    accuracy = evaluate(model, test_loader, device)""",
    ),
}


def filled(hand: str) -> str:
    """The template as this hand filled it in."""
    text = TEMPLATE.read_text()
    for filling in HANDS[hand]:
        text = text.replace(_INSTEAD, filling, 1)
    return text
