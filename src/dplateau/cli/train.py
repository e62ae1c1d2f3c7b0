"""``dplateau train``: from a file of private rows to a model and its certificate."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TypeVar

from dplateau.algorithms.registry import SOLVERS
from dplateau.cli import options as o
from dplateau.cli.distributed import PLACE, distributed
from dplateau.cli.evaluate import brief
from dplateau.cli.keys import key_of
from dplateau.cli.output import printable, show, show_json, warn
from dplateau.cli.public_rows import check_not_private, digest, public_rows
from dplateau.spec.errors import InputError
from dplateau.spec.one_line import without_keys

if TYPE_CHECKING:
    from dplateau.data import Dataset, Schema
    from dplateau.estimators.private_test import PrivateTest
    from dplateau.estimators.table_model import TableModel
    from dplateau.ledger import Account
    from dplateau.training import Cluster

DATA = "The data"
TOGETHER = "Several processes"
_T = TypeVar("_T")


def train(
    file: Annotated[
        str, o.rows_argument(f"The private rows: {o.FORMATS}. With --stream also a folder or address of Parquet files.", PLACE)
    ],
    schema: Annotated[str, o.option("The public schema: a TOML file, or a name (adult, a9a).", DATA, "--schema", metavar="FILE")],
    epsilon: Annotated[float, o.option("What the model may cost, at most.", o.GUARANTEE, "--epsilon")],
    delta: o.Delta = None,
    adjacency: o.Adjacency = None,
    target: Annotated[
        str | None, o.option("The column to predict; must be the schema's target.", DATA, "--target", metavar="COLUMN")
    ] = None,
    test: Annotated[Path | None, o.path_option("A public hold-out file on which to measure accuracy.", DATA, "--test")] = None,
    private_test: Annotated[
        float | None,
        o.option(
            "Hold out this share of the rows, and measure accuracy on them with noise, within epsilon.",
            DATA,
            "--private-test",
            metavar="SHARE",
        ),
    ] = None,
    model: Annotated[
        str | None,
        o.choice(o.MODELS, "What to fit (default: logistic, or linear if the target is a number).", o.MODEL, "--model"),
    ] = None,
    solver: Annotated[
        str, o.choice(("auto", *SOLVERS), "The algorithm; auto chooses as dplateau plan does.", o.MODEL, "--solver")
    ] = "auto",
    loss: o.Loss = None,
    l2: o.L2 = 0.0,
    class_weight: o.ClassWeight = None,
    steps: Annotated[
        int,
        o.option("Gradient steps of noisy-sgd, adp-sgd and dp-sgld; more cost time, not privacy.", o.MODEL, "--steps", metavar="N"),
    ] = 400,
    stream: Annotated[bool, o.flag("Read the rows in pieces: for large files.", DATA, "--stream")] = False,
    rows: Annotated[
        int | None,
        o.option("The public number of rows, or of persons; a file with another number is refused.", DATA, "--rows", metavar="N"),
    ] = None,
    person: Annotated[
        str | None,
        o.option(
            "The column that says whose row it is; persons are protected, each with all of their rows.",
            DATA,
            "--person",
            metavar="COLUMN",
        ),
    ] = None,
    insecure_seed: Annotated[
        int | None,
        o.option("Make the noise repeatable, which voids the guarantee. For tests.", o.MODEL, "--insecure-seed", metavar="N"),
    ] = None,
    several: Annotated[
        bool, o.flag("Train as one of several processes, each on a FILE of its own.", TOGETHER, "--distributed")
    ] = False,
    coordinator: Annotated[
        str | None,
        o.option("Where process 0 listens (default: what JAX finds).", TOGETHER, "--coordinator", metavar="HOST:PORT"),
    ] = None,
    processes: Annotated[
        int | None, o.option("How many processes there are (default: what JAX finds).", TOGETHER, "--processes", metavar="N")
    ] = None,
    process_id: Annotated[
        int | None, o.option("Which this one is, from 0 (default: what JAX finds).", TOGETHER, "--process-id", metavar="I")
    ] = None,
    ledger: Annotated[
        str | None,
        o.option("The ledger to charge, with --dataset: see dplateau ledger.", o.GUARANTEE, "--ledger", metavar="URL"),
    ] = None,
    dataset: Annotated[str | None, o.option("The account in that ledger.", o.GUARANTEE, "--dataset", metavar="NAME")] = None,
    purpose: Annotated[
        str, o.option("What the model is for; recorded in the ledger.", o.GUARANTEE, "--purpose", metavar="TEXT")
    ] = "",
    output: Annotated[Path | None, o.output("New folder for the model (default: FILE-model).", "FOLDER")] = None,
    sign: Annotated[
        str | None, o.option("Sign the certificate with this key: see dplateau keys.", o.RESULT, "--sign", metavar="NAME")
    ] = None,
    json: o.Json = False,
) -> int:
    """Train a model on private rows, and certify what it costs.

    Writes a new folder with the model and certificate.json, completely or not
    at all. Nothing needs tuning: noise and step sizes follow from public facts.

    For example:

    dplateau train adult.data --schema adult --test adult.test --epsilon 1

    dplateau train visits.parquet --schema visits.toml --epsilon 0.5 --person patient

    dplateau train large.parquet --schema large.toml --epsilon 1 --stream

    dplateau train part-{process}.csv --schema my.toml --epsilon 1 --distributed
    """
    if not several and not (coordinator is None and processes is None and process_id is None):
        raise InputError("--coordinator, --processes and --process-id are for --distributed: give it, or leave them out.")
    class_weights = o.numbers_by_class("--class-weight", class_weight)
    name = Path(without_keys(file).rstrip("/")).name.removesuffix(".gz")
    folder = output or Path(f"{Path(name).stem.replace(PLACE, '0')}-model")

    def work(cluster: Cluster | None) -> None:
        """Train, write and show; with a cluster only process 0 writes, shows, and keeps a ledger."""
        first, agreed = cluster is None or cluster.first, at_once if cluster is None else cluster.together

        def check() -> tuple[Any, Account | None, Schema]:
            """What can be wrong before anything is read."""
            check_numbers(epsilon, delta, steps, l2)
            from dplateau.data import load_schema
            from dplateau.files import claimed

            if first:
                claims.enter_context(claimed(folder))
            key = None if sign is None or not first else key_of(sign)
            account = _account(ledger, dataset, purpose) if first else None
            public = load_schema(schema)
            if target is not None and target != public.target.name:
                raise InputError(f"--target is {target!r}, but the schema's target is {public.target.name!r}: change the schema.")
            return key, account, public

        if cluster is not None:
            from dplateau.training.shared import check_ledger

            check_ledger(cluster, ledger)
        with ExitStack() as claims:
            key, account, public = agreed(check)
            trained, holdout = fit(
                file if cluster is None else file.replace(PLACE, str(cluster.index)),
                public,
                test if first else None,
                ledger=account,
                cluster=cluster,
                epsilon=epsilon,
                delta=delta,
                model=model,
                loss=loss,
                l2=l2,
                class_weight=class_weights,
                solver=solver,
                max_iter=steps,
                stream=stream,
                n=rows,
                person=person,
                private_test=private_test,
                adjacency=adjacency or "add-remove",
                insecure_seed=insecure_seed,
            )
            agreed(lambda: trained.save(folder, sign=key) if first else None)
        if not first:
            return
        if json:
            show_json(summary(trained, holdout, folder))
        else:
            show_model(trained, holdout, None if test is None else test.name, folder, signed=key is not None)

    if several:
        return distributed(work, coordinator, processes, process_id)
    work(None)
    return 0


def at_once(work: Callable[[], _T]) -> _T:
    """What ``work`` returns, where there is nobody to agree with."""
    return work()


def _account(url: str | None, dataset: str | None, purpose: str) -> Account | None:
    """The account to charge, whose ledger is known to be there."""
    if url is None and dataset is None:
        if purpose:
            raise InputError("--purpose is for a ledger: give --ledger and --dataset, or leave it out.")
        return None
    if url is None or dataset is None:
        raise InputError("--ledger and --dataset go together: give both, or none.")
    from dplateau.ledger import Ledger

    account = Ledger(url).account(dataset, purpose=purpose)
    account.state()
    return account


def check_numbers(epsilon: float, delta: float | None, steps: int = 400, l2: float = 0.0) -> None:
    """Refuse a number that is wrong by itself, before anything is loaded that reads or trains."""
    from dplateau.spec.arguments import integer, real

    real("epsilon", epsilon)
    integer("steps", steps)
    real("l2", l2, inclusive=True)
    if delta is not None and not 0 < delta < 1:
        raise InputError(f"delta is {delta:g}: expected a number > 0 and < 1, well below 1/n.")


def fit(
    file: str | Path,
    schema: Any,
    test: Path | None,
    *,
    stream: bool = False,
    cluster: Cluster | None = None,
    **options: Any,
) -> tuple[TableModel, Dataset | None]:
    """The model that ``TableModel.train`` makes with these options, and the encoded public hold-out.

    Whatever can be wrong is found before the private rows are used.
    """
    from dplateau.data.files import existing_file

    def public() -> Dataset | None:
        if test is not None:
            existing_file(test)
        if not stream:
            if "://" in str(file) or Path(file).is_dir():
                raise InputError(f"{file} is no file: a folder or address of Parquet files is read with --stream.")
            existing_file(file)
        return None if test is None else public_rows(file, test, schema)

    holdout = public() if cluster is None else cluster.together(public)
    if cluster is not None:
        told = cluster.told(b"" if test is None else digest(test))
        cluster.together(lambda: check_not_private(file, told))
    from dplateau.estimators.table_model import TableModel
    from dplateau.training import TrainingDiverged

    try:
        verbose = cluster is None or cluster.first
        trained = TableModel.train(file, schema, stream=stream, cluster=cluster, verbose=verbose, **options)
    except TrainingDiverged as error:
        raise InputError(str(error)) from None
    return trained, holdout


def summary(trained: TableModel, holdout: Dataset | None, output: Path | None) -> dict[str, Any]:
    """What ``--json`` prints: the folder and the file that were written, the claim, and how good it is on the public hold-out."""
    certificate, found = trained.certificate, None if holdout is None else trained.evaluate(holdout).to_dict()
    result = {
        "model": None if output is None else str(output),
        "certificate": certificate.to_dict() if output is None else str(output / "certificate.json"),
        "epsilon": certificate.epsilon,
        "delta": certificate.delta,
        "certifies": certificate.certifies,
        "test_accuracy": None if found is None else found.get("accuracy"),
    }
    if trained.private_test is not None:
        result["private_test"] = trained.private_test.to_dict()
    return {**result, **({} if trained.classes else {"test_rmse": found and found["rmse"]}), "test": found}


def show_model(
    trained: TableModel, holdout: Dataset | None, test: str | None, output: Path | None, *, signed: bool = False
) -> None:
    """What is printed for a person."""
    from rich.text import Text

    from dplateau.report.text import certificate_text, facts

    lines: list[tuple[str, Any]] = [("model", f"{trained.model}, {len(trained.feature_names):,} features")]
    if holdout is not None:
        found = trained.evaluate(holdout)
        quality, beside = brief(found)
        rows = f" on {found.rows:,} rows of {test}, public by declaration; {beside}"
        lines.append(("test", Text.assemble((quality, "bold"), rows)))
        if found.warning is not None:
            warn(found.warning)
    if trained.private_test is not None:
        lines.append(("private test", private_line(trained.private_test)))
    if output is not None:
        signature = "certificate.sig.json, " if signed else ""
        private = "" if trained.private_test is None else ", private-test/"
        lines.append(("written to", f"{output}/ (certificate.json, {signature}model.json, weights.npz, schema.toml{private})"))
    show(facts(*lines))
    show("")
    show(certificate_text(trained.certificate))


def private_line(found: PrivateTest) -> str:
    """What a noisy histogram of private rows says, in a sentence; ± is about 95 %."""
    from dplateau.accounting.enclosure import rounded_up

    about, own = found.estimates, found.certificate
    cost = f"epsilon {rounded_up(own.epsilon)}, for these rows and no others" if own.certifies else own.standing
    rows = f"{found.rows:,} private rows that were held out; {cost}"
    if not found.classes:
        within = about["within"]["0.1"] or "?"
        return f"{within} of errors are at most 10 % of the range, on {rows}"
    beside = f"always {printable(about['majority'])}: {about['majority_accuracy'] or '?'}"
    recalls = ", ".join(f"{printable(name)} {one or '?'}" for name, one in about["recall"].items())
    return f"accuracy {about['accuracy'] or '?'} on {rows}; {beside}; recall: {recalls}"
