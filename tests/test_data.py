"""Tokens on disk and batches from them: every type, every window, every kind of bad file."""

import itertools
import math
import mmap
import sys
import threading
import weakref
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.utils.data import DataLoader

from course_utils.train import Batches, data, open_tokens, text_tokens, write_tokens
from course_utils.train.data import Noise, own_stream

BOUNDS = {dtype: (np.iinfo(dtype).min, np.iinfo(dtype).max) for dtype in data.DTYPES}


@pytest.fixture
def file(tmp_path):
    return tmp_path / "tokens.bin"


def take(batches, count):
    return [torch.stack(next(batches)) for _ in range(count)]


def same(some, others):
    return all(torch.equal(a, b) for a, b in zip(some, others, strict=True))


# Writing and opening


@st.composite
def numbers_of_a_type(draw):
    dtype = draw(st.sampled_from(data.DTYPES))
    values = draw(st.lists(st.integers(*BOUNDS[dtype]), min_size=1, max_size=50))
    return dtype, values, draw(st.integers(1, 50))


@given(numbers_of_a_type())
def test_what_is_written_is_read(tmp_path_factory, case):
    dtype, values, cut = case
    path = tmp_path_factory.mktemp("tokens") / "some.bin"
    parts = [np.array(values[i : i + cut], dtype) for i in range(0, len(values), cut)]
    for tokens in (np.array(values, dtype), parts, iter(parts)):
        assert write_tokens(path, tokens, dtype) == len(values)
        assert path.stat().st_size == len(values) * np.dtype(dtype).itemsize
        read = open_tokens(path, dtype)
        assert read.dtype == dtype and read.tolist() == values


def test_the_default_is_two_bytes_a_token(file):
    write_tokens(file, np.array([1, 65535]))
    assert file.read_bytes() == b"\x01\x00\xff\xff"
    assert open_tokens(str(file)).tolist() == [1, 65535]


def test_parts_are_taken_one_at_a_time(file):
    made = []

    def parts():
        for value in range(5):
            assert not any(part() is not None for part in made[:-1])  # the last is still at hand
            part = np.full(3, value)
            made.append(weakref.ref(part))
            yield part
            del part

    assert write_tokens(file, parts(), "uint8") == 15
    assert open_tokens(file, "uint8")[::3].tolist() == [0, 1, 2, 3, 4]


@pytest.mark.parametrize("dtype", data.DTYPES)
def test_a_number_outside_of_the_type(file, dtype):
    low, high = BOUNDS[dtype]
    for value in (low - 1, high + 1):
        kind = np.int64 if BOUNDS["int64"][0] <= value <= BOUNDS["int64"][1] else object
        error = ValueError if kind is np.int64 else TypeError
        with pytest.raises(error, match="tokens"):
            write_tokens(file, np.array([0, value], kind), dtype)
    write_tokens(file, np.array([low, high], dtype), dtype)


@pytest.mark.parametrize(
    "tokens",
    [np.array([1.0, 2.0]), np.array([math.nan]), np.array(["a"]), [np.array([1]), np.array([0.5])]],
    ids=str,
)
def test_tokens_that_are_no_whole_numbers(file, tokens):
    with pytest.raises(TypeError, match="tokens must be whole numbers, got an array of"):
        write_tokens(file, tokens)


@pytest.mark.parametrize(
    ("tokens", "message"),
    [
        (torch.arange(3), r"tokens must be a NumPy array: pass x.numpy\(\), got tensor"),
        ("12", "tokens must be an array or an iterable of arrays, got '12'"),
        (7, "tokens must be an array or an iterable of arrays, got 7"),
        (None, "tokens must be an array or an iterable of arrays, got None"),
        (np.array([70_000]), "tokens from 70000 to 70000 do not fit uint16"),
        (np.array([0.5]), "tokens must be whole numbers"),
    ],
    ids=str,
)
def test_what_is_refused_leaves_the_file_that_was_there(file, tokens, message):
    write_tokens(file, np.array([7, 8]))
    with pytest.raises((TypeError, ValueError), match=message):
        write_tokens(file, tokens)
    assert open_tokens(file).tolist() == [7, 8]
    assert [path.name for path in file.parent.iterdir()] == [file.name]


def test_arrays_that_end_in_an_error_leave_no_prefix(file):
    def parts():
        yield np.arange(5)
        raise ConnectionError("the source is gone")

    for before in (None, [7, 8]):
        if before:
            write_tokens(file, np.array(before))
        with pytest.raises(ConnectionError):
            write_tokens(file, parts())
        assert file.exists() == bool(before)
    assert open_tokens(file).tolist() == [7, 8]
    assert [path.name for path in file.parent.iterdir()] == [file.name]


@pytest.mark.skipif(
    sys.platform == "win32", reason="a file that is mapped cannot be replaced there"
)
def test_a_map_can_be_written_onto_its_own_file(file):
    write_tokens(file, np.arange(5000))
    tokens = open_tokens(file)
    assert write_tokens(file, tokens[::-1]) == 5000
    assert open_tokens(file).tolist() == list(range(4999, -1, -1))


@pytest.mark.parametrize("prefetch", [False, True])
@pytest.mark.parametrize("device", ["cuda", "mps", "xpu"])
def test_only_what_is_pinned_is_copied_without_waiting(monkeypatch, device, prefetch):
    """Memory that a device still reads must not be dropped: MPS then gets wrong tokens in silence.

    On CUDA the prefetching thread pins; pinning at the moment of the copy costs more than it saves.
    """
    seen, pinned = [], []
    monkeypatch.setattr(torch.Tensor, "pin_memory", lambda x: pinned.append(id(x)) or x)
    monkeypatch.setattr(torch.Tensor, "is_pinned", lambda x: id(x) in pinned)
    monkeypatch.setattr(torch.Tensor, "to", lambda x, where, **how: seen.append(how) or x)
    batches = Batches(np.arange(50), batch=2, context=3, device=device, prefetch=prefetch)
    next(batches)
    if prefetch:
        batches._pool.shutdown(wait=True)  # before the next case patches torch
    waits_not = device == "cuda" and prefetch
    assert seen == [{"non_blocking": waits_not}] and bool(pinned) == waits_not


def test_a_type_that_is_none_of_ours(file):
    for function in (
        lambda: write_tokens(file, np.array([1]), "float32"),
        lambda: open_tokens(file, 8),
    ):
        with pytest.raises(ValueError, match="dtype must be one of 'uint8', 'uint16'"):
            function()


# Files that are not what they should be


def test_an_empty_file(file):
    assert write_tokens(file, np.array([], np.uint16)) == write_tokens(file, []) == 0
    with pytest.raises(ValueError, match="tokens.bin is empty: no tokens"):
        open_tokens(file)


def test_a_file_of_one_token(file):
    write_tokens(file, np.array([7]))
    tokens = open_tokens(file)
    assert tokens.tolist() == [7]
    with pytest.raises(ValueError, match=r"a window needs context \+ 1 = 2 tokens, the data has 1"):
        Batches(tokens, batch=1, context=1)


@pytest.mark.parametrize(("dtype", "size"), [("uint16", 7), ("uint32", 6), ("int64", 12)])
def test_a_file_that_was_cut_off(file, dtype, size):
    file.write_bytes(bytes(size))
    with pytest.raises(
        ValueError, match=rf"has {size} bytes, no multiple of the \d bytes of {dtype}"
    ):
        open_tokens(file, dtype)
    assert len(open_tokens(file, "uint8")) == size


def test_a_wrong_type_is_found_by_the_vocabulary(file):
    write_tokens(file, np.arange(1000), "uint16")
    with pytest.raises(ValueError, match="read as uint32 has tokens from .* outside of 0 to 999"):
        open_tokens(file, "uint32", vocabulary=1000)
    with pytest.raises(ValueError, match="was it written with another dtype"):
        open_tokens(file, "int64", vocabulary=1000)
    with pytest.raises(ValueError, match="outside of 0 to 998"):
        open_tokens(file, vocabulary=999)
    assert len(open_tokens(file, vocabulary=1000)) == 1000


def test_negative_numbers_are_outside_of_any_vocabulary(file):
    write_tokens(file, np.array([0, -1]), "int32")
    with pytest.raises(ValueError, match="tokens from -1 to 0"):
        open_tokens(file, "int32", vocabulary=10)


def test_without_a_vocabulary_a_wrong_type_is_silent_and_the_docstring_says_so(file):
    write_tokens(file, np.arange(1000), "uint16")
    wrong = open_tokens(file, "uint32")
    assert len(wrong) == 500 and wrong[1] == 2 + (3 << 16)
    assert "does not say what they are" in open_tokens.__doc__


@pytest.mark.parametrize("vocabulary", [0, -5, 2.5, "256", True])
def test_a_vocabulary_that_is_none(file, vocabulary):
    write_tokens(file, np.arange(5))
    with pytest.raises((TypeError, ValueError), match="vocabulary must be a whole number"):
        open_tokens(file, vocabulary=vocabulary)


def test_a_file_of_np_save(tmp_path):
    np.save(tmp_path / "tokens.npy", np.arange(100, dtype=np.uint16))
    with pytest.raises(ValueError, match=r"written by np.save .* np.load\(path, mmap_mode=.r.\)"):
        open_tokens(tmp_path / "tokens.npy")
    mapped = np.load(tmp_path / "tokens.npy", mmap_mode="r")
    assert next(Batches(mapped, batch=2, context=4))[0].shape == (2, 4)


def test_a_file_that_is_not_there(tmp_path):
    with pytest.raises(FileNotFoundError):
        open_tokens(tmp_path / "nothing.bin")


def test_tokens_cannot_be_changed_by_mistake(file):
    write_tokens(file, np.arange(5))
    tokens = open_tokens(file)
    with pytest.raises(ValueError, match="read-only"):
        tokens[0] = 9
    assert file.read_bytes()[:2] == b"\x00\x00"


# Batches


@pytest.mark.parametrize("dtype", ["uint8", "uint16", "int32", "int64"])
@pytest.mark.parametrize("prefetch", [False, True])
def test_shapes_types_and_the_shift_by_one(dtype, prefetch):
    tokens = np.arange(100, dtype=dtype)
    x, y = next(Batches(tokens, batch=5, context=7, prefetch=prefetch))
    assert x.shape == y.shape == (5, 7) and x.dtype == y.dtype == torch.int64
    assert torch.equal(x[:, 1:], y[:, :-1])
    assert torch.equal(y, x + 1)  # the tokens count up, so the next one is one more


@given(st.integers(1, 6), st.integers(1, 8), st.integers(0, 5), st.integers(0, 2**32))
@settings(max_examples=50)
def test_any_batch_is_made_of_windows(batch, context, more, seed):
    tokens = np.random.default_rng(seed).integers(0, 250, context + 1 + more).astype(np.uint8)
    windows = {tuple(tokens[i : i + context + 1].tolist()) for i in range(more + 1)}
    x, y = next(Batches(tokens, batch=batch, context=context, seed=seed))
    for row, target in zip(x.tolist(), y.tolist(), strict=True):
        assert (*row, target[-1]) in windows and row[1:] == target[:-1]


def test_every_start_is_reached_and_no_other():
    """The last token must be a target: the last start is len - context - 1."""
    batches = Batches(np.arange(10, dtype=np.uint16), batch=100, context=4)
    starts = {start for _ in range(10) for start in next(batches)[0][:, 0].tolist()}
    assert starts == set(range(10 - 4))


def test_a_file_of_exactly_one_window():
    x, y = next(Batches(np.arange(5), batch=3, context=4))
    assert x.tolist() == [[0, 1, 2, 3]] * 3 and y.tolist() == [[1, 2, 3, 4]] * 3


def test_all_starts_are_as_likely():
    batches = Batches(np.arange(12), batch=6000, context=2)
    counts = torch.bincount(next(batches)[0][:, 0])
    assert len(counts) == 10 and (counts - 600).abs().max() < 130  # 5.6 standard deviations


def test_the_seed_decides():
    tokens = np.arange(10_000, dtype=np.uint16)
    runs = [take(Batches(tokens, batch=4, context=8, seed=seed), 5) for seed in (3, 3, 4)]
    assert same(runs[0], runs[1]) and not same(runs[0], runs[2])
    assert not same(runs[0][:4], runs[0][1:])


@pytest.mark.parametrize("prefetch", [False, True])
def test_a_run_goes_on_exactly_where_it_stood(prefetch):
    def make(seed=1, ahead=prefetch):
        return Batches(np.arange(1000), batch=3, context=5, seed=seed, prefetch=ahead)

    whole = take(make(ahead=False), 12)
    batches = make()
    assert same(take(batches, 5), whole[:5])
    if prefetch:
        batches._next.result()  # the sixth is cut already, and must not count
    state = batches.state_dict()
    assert same(take(batches, 4), whole[5:9])
    batches.load_state_dict(state)  # back, in the same object
    assert same(take(batches, 7), whole[5:])
    for ahead in (False, True):  # and in another, started or not
        fresh, started = make(99, ahead), make(99, ahead)
        next(started)
        for other in (fresh, started):
            other.load_state_dict(state)
            assert other.state_dict() == state
            assert same(take(other, 7), whole[5:])


def test_the_state_before_the_first_batch():
    batches = Batches(np.arange(1000), batch=3, context=5, prefetch=True)
    state, first = batches.state_dict(), take(batches, 3)
    batches.load_state_dict(state)
    assert same(take(batches, 3), first)


def test_a_state_that_was_taken_does_not_move_on():
    batches = Batches(np.arange(1000), batch=3, context=5)
    state = batches.state_dict()
    before = repr(state)
    take(batches, 3)
    assert repr(state) == before != repr(batches.state_dict())


def test_prefetching_cuts_in_another_thread(monkeypatch):
    threads, cut = set(), Batches._cut

    def watched(self):
        threads.add(threading.current_thread())
        return cut(self)

    monkeypatch.setattr(Batches, "_cut", watched)
    take(Batches(np.arange(100), batch=2, context=3, prefetch=True), 3)
    assert threading.main_thread() not in threads and len(threads) == 1
    take(Batches(np.arange(100), batch=2, context=3), 3)
    assert threading.main_thread() in threads


def test_an_error_in_the_thread_reaches_the_caller(monkeypatch):
    def broken(self):
        raise OSError("the disk is gone")

    monkeypatch.setattr(Batches, "_cut", broken)
    with pytest.raises(OSError, match="the disk is gone"):
        next(Batches(np.arange(100), batch=2, context=3, prefetch=True))


def test_batches_can_be_looped_over():
    batches = Batches(np.arange(100), batch=2, context=3)
    assert len(list(itertools.islice(batches, 4))) == 4


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"batch": 0}, "batch must be a whole number at least 1"),
        ({"batch": 2.5}, "batch must be a whole number"),
        ({"batch": True}, "batch must be a whole number"),
        ({"context": 0}, "context must be a whole number at least 1"),
        ({"context": "8"}, "context must be a whole number"),
        ({"context": None}, "context must be a whole number"),
        ({"context": 100}, r"a window needs context \+ 1 = 101 tokens, the data has 100"),
        ({"seed": -1}, "seed must be a whole number at least 0"),
        ({"seed": None}, "seed must be a whole number"),
        ({"seed": 0.5}, "seed must be a whole number"),
        ({"prefetch": 1}, "prefetch must be True or False"),
        ({"prefetch": None}, "prefetch must be True or False"),
    ],
    ids=str,
)
def test_settings_that_are_none(settings, words):
    with pytest.raises((TypeError, ValueError), match=words):
        Batches(np.arange(100), **{"batch": 2, "context": 3, **settings})


@pytest.mark.parametrize(
    "tokens",
    [None, [1, 2, 3], "text", np.ones(9), np.ones((3, 3), int), np.array(5), torch.arange(9),
     np.array(["a"] * 9), np.ones(9, bool)],
    ids=repr,
)  # fmt: skip
def test_tokens_that_are_none(tokens):
    with pytest.raises(TypeError, match="tokens must be a one-dimensional array of ints, got"):
        Batches(tokens, batch=1, context=2)


def test_whole_numbers_as_floats_are_counts_too():
    x, _ = next(Batches(np.arange(100), batch=2.0, context=3.0))
    assert x.shape == (2, 3)


# Large files


linux = pytest.mark.skipif(sys.platform != "linux", reason="reads /proc/self/smaps")


def resident(path):
    """Bytes of the file that this process has mapped and touched."""
    lines = Path("/proc/self/smaps").read_text().splitlines()
    held, ours = 0, False
    for line in lines:
        first = line.split(maxsplit=1)[0]
        if not first.endswith(":"):
            ours = line.endswith(str(path))
        elif ours and first == "Rss:":
            held += int(line.split()[1]) * 1024
    return held


@pytest.fixture
def large(file):
    write_tokens(file, np.random.default_rng(0).integers(0, 60_000, 4_000_000))
    return file


@linux
def test_of_a_large_file_little_stays_in_memory(large, monkeypatch):
    kept = Batches(open_tokens(large), batch=64, context=256, seed=5)
    expected = take(kept, 20)
    assert resident(large) > 5e6  # nearly all of its 8 MB were touched, and stay
    del kept
    monkeypatch.setattr(data, "MAPPED", 100_000)
    monkeypatch.setattr(data, "PAGE", 5000)  # so that a batch is read in several parts
    batches = Batches(open_tokens(large), batch=64, context=256, seed=5)
    assert same(take(batches, 20), expected)
    assert resident(large) <= 4 * mmap.PAGESIZE


@linux
def test_parts_of_a_large_file_and_prefetching(large, monkeypatch):
    monkeypatch.setattr(data, "MAPPED", 100_000)
    tokens = open_tokens(large)
    halves = [tokens[:2_000_000], tokens[2_000_000:]]
    pairs = [(Batches(half, batch=8, context=64, prefetch=True), half) for half in halves]
    for batches, half in pairs:
        expected = take(Batches(np.array(half), batch=8, context=64), 10)
        assert same(take(batches, 10), expected)


def test_only_read_only_maps_of_large_files_are_let_go(large, monkeypatch):
    """What was written into a private map would be lost with its pages."""
    assert data._large_map(open_tokens(large)) is None  # 8 MB may stay
    monkeypatch.setattr(data, "MAPPED", 100_000)
    found = data._large_map(open_tokens(large)[5:])
    assert isinstance(found, mmap.mmap) or not hasattr(mmap, "MADV_DONTNEED")
    for tokens in (np.memmap(large, np.uint16, "c"), np.memmap(large, np.uint16, "r+")):
        assert data._large_map(tokens) is None
    assert data._large_map(np.arange(1_000_000)) is None


# The text


def test_the_text_is_english_bytes():
    tokens = text_tokens()
    assert tokens.dtype == np.uint8 and tokens.ndim == 1
    assert 400_000 < len(tokens) < 1_000_000
    text = tokens.tobytes().decode("utf-8")
    assert text.count(" the ") > 2000 and "assert" in text
    assert tokens.max() < 256 and np.bincount(tokens).argmax() == ord(" ")
    assert (tokens == text_tokens()).all()


def test_the_text_through_a_file(file):
    assert write_tokens(file, text_tokens(), "uint8") == len(text_tokens())
    tokens = open_tokens(file, "uint8", vocabulary=256)
    pairs = [take(Batches(t, batch=4, context=16), 3) for t in (tokens, text_tokens())]
    assert same(*pairs)


# A generator inside a loader's workers


def drawn(**settings):
    """What two workers draw in two epochs, each eight numbers."""
    loader = DataLoader(Noise(8, seed=1), batch_size=1, num_workers=2, **settings)
    torch.manual_seed(0)
    return [[x.item() for x in loader] for _ in range(2)]


def test_workers_copy_the_datasets_generator():
    first, second = drawn()
    assert first == second  # a worker starts from the same copy in each epoch
    assert first[0::2] == first[1::2]  # and so does the other worker


def test_a_stream_of_its_own_for_each_worker():
    first, second = drawn(worker_init_fn=own_stream)
    assert len({*first, *second}) == 16
    assert drawn(worker_init_fn=own_stream) == [first, second]


def test_noise_has_a_length():
    noise = Noise(3)
    assert len(noise) == 3 and 0 <= noise[2].item() < 1
    with pytest.raises(IndexError, match="index must be 0 to 2, got 3"):
        noise[3]
    for length in (0, 2.5, None):
        with pytest.raises((TypeError, ValueError), match="length must be a whole number"):
            Noise(length)


@pytest.mark.parametrize("parts", [[torch.ones(3)], (torch.ones(3) for _ in range(2))])
def test_a_tensor_among_the_parts_is_named(tmp_path, parts):
    write_tokens(tmp_path / "kept.bin", np.arange(4))
    with pytest.raises(TypeError, match="tokens must be NumPy arrays: pass x.numpy"):
        write_tokens(tmp_path / "kept.bin", parts)
    assert open_tokens(tmp_path / "kept.bin").tolist() == [0, 1, 2, 3]


def test_a_link_stays_a_link(tmp_path):
    write_tokens(tmp_path / "real.bin", np.arange(4))
    (tmp_path / "link.bin").symlink_to(tmp_path / "real.bin")
    write_tokens(tmp_path / "link.bin", np.arange(2))
    assert (tmp_path / "link.bin").is_symlink()
    assert open_tokens(tmp_path / "real.bin").tolist() == [0, 1]
