"""Programs on text and sequences: classifiers, taggers, small language models."""

import math
import random

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.nn.utils.rnn import pack_padded_sequence
from torch.utils.data import DataLoader, Dataset, TensorDataset
from transformers import BertConfig, BertForSequenceClassification, GPT2Config, GPT2LMHeadModel

from benchmarks.first_sight import pair

VOCAB = 200
POS = list(range(10, 30))
NEG = list(range(30, 50))


def make_review(rng, low, high):
    label = rng.randint(0, 1)
    n = rng.randint(low, high)
    words = [rng.randint(50, VOCAB - 1) for _ in range(n)]
    strong, weak = (POS, NEG) if label == 1 else (NEG, POS)
    places = rng.sample(range(n), 3)
    for p in places[:2]:
        words[p] = rng.choice(strong)
    if rng.random() < 0.3:
        words[places[2]] = rng.choice(weak)
    return words, label


# ----------------------------------------------------------------------------------------------------------------------
class ReviewSet(Dataset):
    def __init__(self, n, seed, max_len=100):
        rng = random.Random(seed)
        self.rows = [make_review(rng, 5, 20) for _ in range(n)]
        self.max_len = max_len

    def __len__(self):
        return len(self.rows)

    def __getitem__(self, i):
        words, label = self.rows[i]
        ids = words + [0] * (self.max_len - len(words))
        return {"ids": torch.tensor(ids), "length": torch.tensor(len(words)), "label": torch.tensor(label)}


class ReviewLSTM(nn.Module):
    def __init__(self, take_last_column):
        super().__init__()
        self.embedding = nn.Embedding(VOCAB, 32, padding_idx=0)
        self.lstm = nn.LSTM(32, 32, batch_first=True)
        self.fc = nn.Linear(32, 2)
        self.take_last_column = take_last_column

    def forward(self, ids, length):
        x = self.embedding(ids)
        if self.take_last_column:
            out, _ = self.lstm(x)
            return self.fc(out[:, -1])
        packed = pack_padded_sequence(x, length.cpu(), batch_first=True, enforce_sorted=False)
        _, (h, _) = self.lstm(packed)
        return self.fc(h[-1])


@pair(
    "The classifier reads the LSTM's output at the last column, which for almost every review is eighty steps of "
    "padding after its last word.",
    where="lstm",
    source="discuss.pytorch.org: LSTM on padded sequences, loss stuck at 0.69 (output[:, -1] of a padded batch)",
    accepted=("padding-dominates",),
)
def fir_review_lstm_reads_padding(faulty):
    torch.manual_seed(0)
    model = ReviewLSTM(take_last_column=faulty)
    train = DataLoader(ReviewSet(640, 1), batch_size=32, shuffle=True)
    val = DataLoader(ReviewSet(160, 2), batch_size=32)

    def compute_loss(model, batch, loss_fn):
        return loss_fn(model(batch["ids"], batch["length"]), batch["label"])

    return {
        "model": model,
        "loader": train,
        "val_loader": val,
        "loss_fn": nn.CrossEntropyLoss(),
        "optimizer": torch.optim.Adam(model.parameters(), lr=3e-3),
        "compute_loss": compute_loss,
        "class_names": ["negative", "positive"],
    }


# ----------------------------------------------------------------------------------------------------------------------
TAGS = ["O", "B-PER", "I-PER", "B-LOC", "B-ORG"]


def ner_sentence(rng):
    n = rng.randint(5, 9)
    words = [rng.randint(100, 399) for _ in range(n)]
    tags = [0] * n
    kind = rng.choice(["per", "loc", "org"])
    at = rng.randint(0, n - 3)
    # 40..69 are capitalised words, which may be anything; the word before them decides
    if kind == "per":
        words[at : at + 3] = [10 + rng.randint(0, 4), 40 + rng.randint(0, 29), 40 + rng.randint(0, 29)]
        tags[at + 1], tags[at + 2] = 1, 2
    elif kind == "loc":
        words[at : at + 2] = [20 + rng.randint(0, 4), 40 + rng.randint(0, 29)]
        tags[at + 1] = 3
    else:
        words[at : at + 2] = [30 + rng.randint(0, 4), 40 + rng.randint(0, 29)]
        tags[at + 1] = 4
    return words, tags


def ner_collate(label_pad, width=80):
    def collate(rows):
        ids = torch.zeros(len(rows), width, dtype=torch.long)
        tags = torch.full((len(rows), width), label_pad)
        for i, (w, t) in enumerate(rows):
            ids[i, : len(w)] = torch.tensor(w)
            tags[i, : len(t)] = torch.tensor(t)
        return ids, tags

    return collate


class Tagger(nn.Module):
    def __init__(self):
        super().__init__()
        self.emb = nn.Embedding(400, 24, padding_idx=0)
        self.rnn = nn.GRU(24, 24, batch_first=True, bidirectional=True)
        self.out = nn.Linear(48, len(TAGS))

    def forward(self, ids):
        h, _ = self.rnn(self.emb(ids))
        return self.out(h).transpose(1, 2)  # CrossEntropyLoss wants the classes second


@pair(
    "The padded positions are labelled O and counted in the loss: nine tenths of what is averaged is padding.",
    where="batch[1]",
    source="github huggingface/transformers issue #9909: run_seq2seq.py : Why we pad labels with -100?",
    accepted=("padding-dominates",),
)
def fir_ner_padding_labelled_o(faulty):
    torch.manual_seed(1)
    rng = random.Random(5)
    rows = [ner_sentence(rng) for _ in range(600)]
    collate = ner_collate(0 if faulty else -100)
    model = Tagger()
    return {
        "model": model,
        "loader": DataLoader(rows[:480], batch_size=32, shuffle=True, collate_fn=collate),
        "val_loader": DataLoader(rows[480:], batch_size=32, collate_fn=collate),
        "loss_fn": nn.CrossEntropyLoss(),
        "optimizer": torch.optim.Adam(model.parameters(), lr=2e-3),
        "class_names": TAGS,
    }


# ----------------------------------------------------------------------------------------------------------------------
def grammar_text(n, seed):
    rng = random.Random(seed)
    who = ["the cat", "a dog", "my old friend", "the teacher", "our neighbour", "a small bird"]
    did = ["sat on", "looked at", "ran past", "painted", "sold", "remembered"]
    what = ["the mat", "the green door", "a house", "the river", "that song", "the kitchen table"]
    when = ["today", "last winter", "in the morning", "after dinner", "again"]
    return " ".join(f"{rng.choice(who)} {rng.choice(did)} {rng.choice(what)} {rng.choice(when)}." for _ in range(n))


class CharRNN(nn.Module):
    def __init__(self, n_chars, hidden=64):
        super().__init__()
        self.encoder = nn.Embedding(n_chars, 32)
        self.gru = nn.GRU(32, hidden, num_layers=1, batch_first=True)
        self.decoder = nn.Linear(hidden, n_chars)

    def forward(self, x):
        out, _ = self.gru(self.encoder(x))
        return self.decoder(out)


class CharChunks(Dataset):
    def __init__(self, text, chars, chunk_len=40, shift=1):
        self.ids = torch.tensor([chars.index(c) for c in text])
        self.chunk_len = chunk_len
        self.shift = shift

    def __len__(self):
        return (len(self.ids) - 1) // self.chunk_len

    def __getitem__(self, i):
        a = i * self.chunk_len
        b = a + self.chunk_len
        return self.ids[a:b], self.ids[a + self.shift : b + self.shift]


@pair(
    "The target of the character model is the input itself and not the next character: it learns to copy and then "
    "generates one letter for ever.",
    where="batch[1]",
    source="stackoverflow: char-rnn in PyTorch, loss is nearly zero but the generated text repeats one character",
    accepted=("unshifted-targets", "target-leaks-into-inputs"),
)
def fir_char_rnn_target_not_shifted(faulty):
    torch.manual_seed(2)
    text = grammar_text(500, 3)
    chars = sorted(set(text))
    ds = CharChunks(text, chars, shift=0 if faulty else 1)
    model = CharRNN(len(chars))

    def loss_fn(output, target):
        return F.cross_entropy(output.reshape(-1, len(chars)), target.reshape(-1))

    return {
        "model": model,
        "loader": DataLoader(ds, batch_size=16, shuffle=True),
        "loss_fn": loss_fn,
        "optimizer": torch.optim.Adam(model.parameters(), lr=3e-3),
    }


# ----------------------------------------------------------------------------------------------------------------------
class SmallGPT(nn.Module):
    """Word model after the tutorial "Language Modeling with nn.Transformer"."""

    def __init__(self, vocab, d=48, block=24, masked=True):
        super().__init__()
        self.tok = nn.Embedding(vocab, d)
        self.pos = nn.Parameter(torch.randn(1, block, d) * 0.02)
        layer = nn.TransformerEncoderLayer(d, 4, 96, dropout=0.1, batch_first=True)
        self.encoder = nn.TransformerEncoder(layer, 2)
        self.lm_head = nn.Linear(d, vocab)
        self.masked = masked

    def forward(self, idx):
        t = idx.size(1)
        x = self.tok(idx) + self.pos[:, :t]
        mask = nn.Transformer.generate_square_subsequent_mask(t) if self.masked else None
        return self.lm_head(self.encoder(x, mask=mask))


@pair(
    "The language model is a TransformerEncoder without a causal mask: every position sees the word it must predict.",
    where="encoder",
    source="discuss.pytorch.org: nn.TransformerEncoder language model, perplexity close to 1 after one epoch",
    accepted=("causal-leak",),
)
def fir_word_gpt_without_causal_mask(faulty):
    torch.manual_seed(3)
    words = grammar_text(600, 8).replace(".", " .").split()
    vocab = sorted(set(words))
    ids = torch.tensor([vocab.index(w) for w in words])
    block = 24
    n = (len(ids) - 1) // block
    x = ids[: n * block].view(n, block)
    y = ids[1 : n * block + 1].view(n, block)
    cut = int(0.85 * n)
    model = SmallGPT(len(vocab), masked=not faulty)
    opt = torch.optim.AdamW(model.parameters(), lr=2e-3)
    ce = nn.CrossEntropyLoss()
    return {
        "model": model,
        "loader": DataLoader(TensorDataset(x[:cut], y[:cut]), batch_size=16, shuffle=True),
        "val_loader": DataLoader(TensorDataset(x[cut:], y[cut:]), batch_size=16),
        "loss_fn": lambda logits, target: ce(logits.flatten(0, 1), target.flatten()),
        "optimizer": opt,
    }


# ----------------------------------------------------------------------------------------------------------------------
class OrderClassifier(nn.Module):
    def __init__(self, n_tokens=24, d_model=32, n_classes=4, length=12, positions=True):
        super().__init__()
        self.embeddings = nn.Embedding(n_tokens, d_model)
        self.positions = nn.Embedding(length, d_model) if positions else None
        layer = nn.TransformerEncoderLayer(d_model, 4, 64, dropout=0.0, batch_first=True)
        self.transformer_encoder = nn.TransformerEncoder(layer, num_layers=2)
        self.classifier = nn.Linear(d_model, n_classes)

    def forward(self, x):
        h = self.embeddings(x) * math.sqrt(self.embeddings.embedding_dim)
        if self.positions is not None:
            h = h + self.positions(torch.arange(x.size(1))) * math.sqrt(self.embeddings.embedding_dim)
        h = self.transformer_encoder(h)
        return self.classifier(h.mean(dim=1))


@pair(
    "The transformer classifier has no positional encoding, and the class is which of four events came first.",
    where="transformer_encoder",
    source="openillumi.com / stackoverflow: nn.TransformerEncoder gets 25% on 4-class sequences, nn.LSTM 83%",
    accepted=("token-order-ignored",),
)
def fir_transformer_without_positions(faulty):
    torch.manual_seed(4)
    g = torch.Generator().manual_seed(11)
    n, length = 2400, 12
    x = torch.randint(4, 24, (n, length), generator=g)
    places = torch.stack([torch.randperm(length, generator=g)[:4] for _ in range(n)])  # of events 0..3
    x.scatter_(1, places, torch.arange(4).expand(n, 4))
    y = places.argmin(dim=1)
    model = OrderClassifier(positions=not faulty)
    return {
        "model": model,
        "loader": DataLoader(TensorDataset(x[:2000], y[:2000]), batch_size=32, shuffle=True),
        "val_loader": DataLoader(TensorDataset(x[2000:], y[2000:]), batch_size=64),
        "loss_fn": nn.CrossEntropyLoss(),
        "optimizer": torch.optim.Adam(model.parameters(), lr=1e-3),
    }


# ----------------------------------------------------------------------------------------------------------------------
class Encoded(Dataset):
    """What a tokenizer returned, with labels, as in the Hugging Face guide to custom datasets."""

    def __init__(self, encodings, labels):
        self.encodings = encodings
        self.labels = labels

    def __getitem__(self, idx):
        item = {k: torch.tensor(v[idx]) for k, v in self.encodings.items()}
        item["labels"] = torch.tensor(self.labels[idx])
        return item

    def __len__(self):
        return len(self.labels)


def encode(n, seed, width=24):
    rng = random.Random(seed)
    ids, mask, labels = [], [], []
    for _ in range(n):
        words, label = make_review(rng, 10, 20)
        row = [1, *words, 2]
        ids.append(row + [0] * (width - len(row)))
        mask.append([1] * len(row) + [0] * (width - len(row)))
        labels.append(label)
    return {"input_ids": ids, "attention_mask": mask}, labels


@pair(
    "BERT is fine-tuned at a learning rate of 0.02, hundreds of times what it bears: all inputs soon get the same logits.",
    where="",
    source="github huggingface/transformers issue #735: BERT encoding layer produces same output for all inputs",
    accepted=("learning-rate-too-high", "update-ratio-off"),
)
def fir_bert_learning_rate(faulty):
    torch.manual_seed(5)
    config = BertConfig(
        vocab_size=VOCAB,
        hidden_size=48,
        num_hidden_layers=2,
        num_attention_heads=4,
        intermediate_size=96,
        max_position_embeddings=32,
        num_labels=2,
        initializer_range=0.05,
    )
    model = BertForSequenceClassification(config)
    train = Encoded(*encode(640, 21))
    val = Encoded(*encode(160, 22))
    lr = 2e-2 if faulty else 5e-4

    def compute_loss(model, batch, loss_fn):
        out = model(input_ids=batch["input_ids"], attention_mask=batch["attention_mask"])
        return loss_fn(out.logits, batch["labels"])

    return {
        "model": model,
        "loader": DataLoader(train, batch_size=16, shuffle=True),
        "val_loader": DataLoader(val, batch_size=32),
        "loss_fn": nn.CrossEntropyLoss(),
        "optimizer": torch.optim.AdamW(model.parameters(), lr=lr),
        "compute_loss": compute_loss,
    }


# ----------------------------------------------------------------------------------------------------------------------
@pair(
    "The pad token is the end-of-text token, and all of its positions are taken out of the labels: the end of a text is "
    "never taught and generation never stops.",
    where="batch['labels']",
    source="github huggingface/trl issue #976: DataCollatorForCompletionOnlyLM can create a model that never "
    "generates eos_token_id",
    accepted=("class-ignored-by-loss",),
)
def fir_gpt2_never_taught_to_stop(faulty):
    torch.manual_seed(6)
    sentences = [s.strip().split() for s in grammar_text(500, 31).split(".") if s.strip()]
    vocab = ["<|endoftext|>"] + sorted({w for s in sentences for w in s})
    eos = 0
    pad = eos  # tokenizer.pad_token = tokenizer.eos_token
    width = 12

    def collate(rows):
        ids = torch.full((len(rows), width), pad)
        mask = torch.zeros(len(rows), width, dtype=torch.long)
        for i, words in enumerate(rows):
            tokens = [vocab.index(w) for w in words] + [eos]
            ids[i, : len(tokens)] = torch.tensor(tokens)
            mask[i, : len(tokens)] = 1
        labels = ids.clone()
        if faulty:
            labels[labels == pad] = -100
        else:
            labels[mask == 0] = -100
        return {"input_ids": ids, "attention_mask": mask, "labels": labels}

    config = GPT2Config(
        vocab_size=len(vocab), n_positions=16, n_embd=48, n_layer=2, n_head=4, bos_token_id=0, eos_token_id=0
    )
    model = GPT2LMHeadModel(config)

    def compute_loss(model, batch, loss_fn):
        logits = model(input_ids=batch["input_ids"], attention_mask=batch["attention_mask"]).logits
        return loss_fn(logits[:, :-1].flatten(0, 1), batch["labels"][:, 1:].flatten())

    return {
        "model": model,
        "loader": DataLoader(sentences[:420], batch_size=16, shuffle=True, collate_fn=collate),
        "val_loader": DataLoader(sentences[420:], batch_size=16, collate_fn=collate),
        "loss_fn": nn.CrossEntropyLoss(ignore_index=-100),
        "optimizer": torch.optim.AdamW(model.parameters(), lr=2e-3),
        "compute_loss": compute_loss,
    }


# ----------------------------------------------------------------------------------------------------------------------
class SensorNet(nn.Module):
    def __init__(self, batch_first):
        super().__init__()
        self.lstm = nn.LSTM(input_size=3, hidden_size=32, num_layers=1, batch_first=batch_first)
        self.fc = nn.Linear(32, 4)

    def forward(self, x):  # x: batch, time, channels
        out, _ = self.lstm(x)
        return self.fc(out[:, -1, :])


@pair(
    "The LSTM is made without batch_first but is given (batch, time, features): it runs along the samples of the batch "
    "and each sample is judged by its last time step.",
    where="lstm",
    source="discuss.pytorch.org: LSTM not learning, accuracy of chance (batch_first=False with batch-first data)",
    accepted=("batch-mixing",),
)
def fir_sensor_lstm_batch_first(faulty):
    torch.manual_seed(7)
    rng = np.random.default_rng(7)
    n, steps = 640, 30
    y = rng.integers(0, 4, n)
    t = np.arange(steps)
    freq = np.array([0.15, 0.3, 0.5, 0.8])[y]
    phase = rng.uniform(0, 2 * np.pi, n)
    x = np.stack(
        [np.sin(freq[:, None] * t + phase[:, None] + k * 0.8) + rng.normal(0, 0.2, (n, steps)) for k in range(3)], -1
    )
    x, y = torch.tensor(x, dtype=torch.float32), torch.tensor(y)
    model = SensorNet(batch_first=not faulty)
    return {
        "model": model,
        "loader": DataLoader(TensorDataset(x[:512], y[:512]), batch_size=32, shuffle=True),
        "val_loader": DataLoader(TensorDataset(x[512:], y[512:]), batch_size=32),
        "loss_fn": nn.CrossEntropyLoss(),
        "optimizer": torch.optim.Adam(model.parameters(), lr=5e-3),
        "class_names": ["walk", "run", "stairs", "bike"],
    }


# ----------------------------------------------------------------------------------------------------------------------
class MailDataset(Dataset):
    """Support mails: a greeting and a signature block first, what it is about further down."""

    def __init__(self, n, seed, max_len):
        rng = random.Random(seed)
        self.samples = []
        for _ in range(n):
            topic = rng.randint(0, 3)
            head = [rng.randint(100, 139) for _ in range(12)]
            if rng.random() < 0.3:
                head[rng.randint(3, 9)] = 10 + 10 * topic + rng.randint(0, 9)  # sometimes the subject tells it
            body = [rng.randint(50, 139) for _ in range(36)]
            for p in rng.sample(range(36), 5):
                body[p] = 10 + 10 * topic + rng.randint(0, 9)
            self.samples.append((head + body, topic))
        self.max_len = max_len

    def tokenize(self, words):
        return (words + [0] * self.max_len)[: self.max_len]

    def __len__(self):
        return len(self.samples)

    def __getitem__(self, i):
        words, topic = self.samples[i]
        return torch.tensor(self.tokenize(words)), topic


class MailCNN(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed = nn.Embedding(140, 32, padding_idx=0)
        self.convs = nn.ModuleList(nn.Conv1d(32, 24, k, padding=1) for k in (2, 3))
        self.drop = nn.Dropout(0.2)
        self.fc = nn.Linear(48, 4)

    def forward(self, ids):
        e = self.embed(ids).transpose(1, 2)
        h = torch.cat([F.relu(c(e)).amax(-1) for c in self.convs], 1)
        return self.fc(self.drop(h))


@pair(
    "max_length=10 cuts every mail after its greeting; what the mail is about comes later.",
    where="batch[0]",
    source="kaggle / stackoverflow: text classifier stuck at 50%, max_len copied from a tweet notebook",
    accepted=("truncated-inputs",),
)
def fir_mails_cut_at_ten_words(faulty):
    torch.manual_seed(8)
    max_len = 10 if faulty else 50
    model = MailCNN()
    return {
        "model": model,
        "loader": DataLoader(MailDataset(640, 1, max_len), batch_size=32, shuffle=True),
        "val_loader": DataLoader(MailDataset(200, 2, max_len), batch_size=32),
        "loss_fn": nn.CrossEntropyLoss(),
        "optimizer": torch.optim.Adam(model.parameters(), lr=2e-3),
        "class_names": ["billing", "delivery", "returns", "account"],
    }
