import errno
import fcntl
import os
import resource
import shutil
import signal
import subprocess
import sys
import threading
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace

import pytest

from dplateau.files import check_file, claimed, locked, new_file, new_folder, read_whole, write_file
from dplateau.spec import InputError


@contextmanager
def largest_file(size: int):
    """Within it, no file can grow beyond ``size`` bytes: a disk that is full, for one process."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


def test_a_full_disk_leaves_the_old_file(tmp_path):
    path = tmp_path / "c.json"
    write_file(path, "old")
    with largest_file(1000), pytest.raises(InputError, match="cannot be written"):
        write_file(path, "new" * 1000)
    assert path.read_text() == "old"
    assert list(tmp_path.iterdir()) == [path]


def fill(folder, *texts: str, error: type[BaseException] | None = None) -> None:
    with new_folder(folder) as part:
        for i, text in enumerate(texts):
            (part / str(i)).write_text(text)
        if error is not None:
            raise error


def test_a_full_disk_leaves_no_folder(tmp_path):
    with largest_file(1000), pytest.raises(InputError, match="cannot be written"):
        fill(tmp_path / "model", "x", "x" * 10_000)
    assert list(tmp_path.iterdir()) == []


def test_a_folder_on_a_full_disk_is_refused_before_anything_is_computed(tmp_path, monkeypatch):
    def disk(total, free):
        monkeypatch.setattr(shutil, "disk_usage", lambda _: SimpleNamespace(total=total, free=free))

    disk(1 << 30, 1 << 20)
    with claimed(tmp_path / "model"):
        pass
    disk(1 << 30, (1 << 20) - 1)
    with pytest.raises(InputError, match="model cannot be written: less than 1 MB is free"), claimed(tmp_path / "model"):
        pytest.fail("nothing is computed")
    assert list(tmp_path.iterdir()) == []
    disk(0, 0)  # a file system that does not say
    with claimed(tmp_path / "model"):
        pass


def test_an_error_leaves_no_folder(tmp_path):
    with pytest.raises(KeyboardInterrupt):
        fill(tmp_path / "model", "x", error=KeyboardInterrupt)
    assert list(tmp_path.iterdir()) == []


def test_a_folder_that_exists_is_kept(tmp_path):
    (tmp_path / "model").mkdir()
    with pytest.raises(InputError, match="exists already"):
        fill(tmp_path / "model")
    assert list((tmp_path / "model").iterdir()) == []


@pytest.mark.parametrize("write", [write_file, fill])
def test_no_parent(tmp_path, write):
    with pytest.raises(InputError, match="cannot be written"):
        write(tmp_path / "no" / "model", "x")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("write", [write_file, fill, lambda path, _: check_file(path)])
def test_a_name_that_is_too_long(tmp_path, write):
    with pytest.raises(InputError, match="cannot be written: File name too long"):
        write(tmp_path / ("x" * 300), "x")
    assert list(tmp_path.iterdir()) == []


def test_what_the_system_says_is_told(tmp_path, monkeypatch):
    def full(*_):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(InputError, match="No space left on device"):
        write_file(tmp_path / "c.json", "x")
    with pytest.raises(InputError, match="No space left on device"):
        fill(tmp_path / "model", "x")
    assert list(tmp_path.iterdir()) == []


KILLED = """
import os, signal, sys
from dplateau.files import new_folder, write_file
os.fsync = lambda _: os.kill(os.getpid(), signal.SIGKILL)
if sys.argv[1] == "folder":
    with new_folder("model") as part:
        (part / "a").write_text("x")
else:
    write_file("model", "x")
"""


@pytest.mark.parametrize("what", ["folder", "file"])
def test_a_kill_leaves_nothing_under_the_name(tmp_path, what):
    done = subprocess.run([sys.executable, "-c", KILLED, what], cwd=tmp_path)
    assert done.returncode == -signal.SIGKILL
    assert not (tmp_path / "model").exists()
    assert all(path.name.startswith(".model.") and path.name.endswith(".part") for path in tmp_path.iterdir())


def test_the_folder_has_the_usual_permissions(tmp_path):
    fill(tmp_path / "model", "x")
    (tmp_path / "other").mkdir()
    assert (tmp_path / "model").stat().st_mode == (tmp_path / "other").stat().st_mode


def test_a_new_file_is_whole_or_not_there_and_replaces_nothing(tmp_path, monkeypatch):
    path = tmp_path / "out.csv"
    with new_file(path) as part:
        part.write_text("x")
        assert not path.exists()
    assert path.read_text() == "x"
    with pytest.raises(InputError, match="exists already"), new_file(path):
        pytest.fail("the block is not entered")
    with pytest.raises(InputError, match="is not a folder"), new_file(tmp_path / "no" / "out.csv"):
        pytest.fail("the block is not entered")

    def interrupted():
        with new_file(tmp_path / "other.csv") as part:
            part.write_text("x")
            raise KeyboardInterrupt

    def overtaken(path):
        with new_file(path) as part:
            part.write_text("mine")
            path.write_text("theirs")

    with pytest.raises(KeyboardInterrupt):
        interrupted()
    with pytest.raises(InputError, match="File exists"):
        overtaken(tmp_path / "late.csv")
    assert (tmp_path / "late.csv").read_text() == "theirs"

    def no_links(*_):
        raise OSError(errno.EPERM, os.strerror(errno.EPERM))

    monkeypatch.setattr(os, "link", no_links)
    with new_file(tmp_path / "unlinked.csv") as part:
        part.write_text("x")
    with pytest.raises(InputError, match="exists already"):
        overtaken(tmp_path / "late2.csv")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["late.csv", "late2.csv", "out.csv", "unlinked.csv"]


@pytest.mark.skipif(os.name != "posix", reason="there are no pipes with names")
def test_what_is_no_file_is_not_replaced(tmp_path):
    """For an administrator a renamed file takes the place of /dev/null."""
    os.mkfifo(tmp_path / "pipe")
    for write in (lambda: write_file(tmp_path / "pipe", "x"), lambda: check_file(tmp_path / "pipe")):
        with pytest.raises(InputError, match="it is a pipe or a device"):
            write()
    assert (tmp_path / "pipe").is_fifo()
    assert len(list(tmp_path.iterdir())) == 1


@pytest.mark.skipif(not os.path.exists("/dev/zero"), reason="there is no device that never ends")
def test_what_never_ends_is_not_read_to_its_end():
    with pytest.raises(InputError, match="more than 1,000 bytes"):
        read_whole(Path("/dev/zero"), 1_000)


def test_a_file_of_the_largest_size_is_read(tmp_path):
    (tmp_path / "file").write_bytes(bytes(1_000))
    assert len(read_whole(tmp_path / "file", 1_000)) == 1_000


def test_one_at_a_time_is_let_in(tmp_path):
    lock = tmp_path / ".lock"
    with locked(lock):
        for busy, said in (("taken", "^taken$"), ("", r"another process has locked .*\.lock for 0.02 seconds: try again\.")):
            with pytest.raises(InputError, match=said), locked(lock, busy, patience=0.02):
                pytest.fail("the block is not entered")
        entered: list[bool] = []

        def enters():
            with locked(lock):
                entered.append(True)

        waits = threading.Thread(target=enters)
        waits.start()
        waits.join(0.05)
        assert not entered
    waits.join(10)
    assert entered


@pytest.mark.parametrize("anew", [False, True], ids=["removed", "made anew"])
def test_a_lock_that_was_removed_meanwhile_lets_nobody_in(tmp_path, monkeypatch, anew):
    """Whoever removed it was in the block; whoever made the new one is."""
    lock, flock = tmp_path / ".lock", fcntl.flock

    def late(file, how):
        lock.unlink()
        if anew:
            lock.touch()
        flock(file, how)

    monkeypatch.setattr(fcntl, "flock", late)
    with pytest.raises(InputError, match="taken"), locked(lock, "taken"):
        pytest.fail("the block is not entered")


def test_where_files_cannot_be_locked_all_are_let_in_and_other_errors_are_told(tmp_path, monkeypatch):
    def fails(number):
        def flock(*_):
            raise OSError(number, os.strerror(number))

        return flock

    monkeypatch.setattr(fcntl, "flock", fails(errno.ENOLCK))
    with locked(tmp_path / ".lock"):
        pass
    monkeypatch.setattr(fcntl, "flock", fails(errno.EIO))
    for path, said in ((tmp_path / ".lock", "Input/output error"), (tmp_path / "no" / ".lock", "No such file")):
        with pytest.raises(InputError, match=said), locked(path):
            pytest.fail("the block is not entered")
