"""Writes a policy to a file: ONNX, or PyTorch's own format for exported programs."""

import json
import logging
import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from io import BytesIO
from pathlib import Path

import torch

from mrq.algorithms.algorithm import Learner
from mrq.environments.spaces import Translator
from mrq.errors import MRQError, one_line
from mrq.export.graph import PolicyGraph
from mrq.files import written_aside

TRACED = 3  # observations with which a policy is traced; any number can be given to it afterwards
METADATA = "mrq.json"  # in a .pt2 file
Metadata = Mapping[str, str]
Export = torch.export.ExportedProgram


def check_export_path(path: Path) -> None:
    """Refuses a file of a kind that policies are not written as."""
    if path.suffix not in WRITERS:
        raise MRQError(f"a policy is written as {' or '.join(WRITERS)}, which {str(path)!r} does not end with.")


def write_policy(path: Path, translator: Translator, learner: Learner, sampled: bool, metadata: Metadata) -> None:
    """Writes a policy, whose learner is on the CPU; what was there before stays if that fails."""
    check_export_path(path)
    graph = PolicyGraph(translator, learner, sampled).eval()
    inputs = graph.inputs(TRACED)
    batch = torch.export.Dim("batch")
    try:
        with _quiet(), torch.no_grad():
            outputs = list(graph(inputs))
            every = {name: {0: batch} for name in inputs}
            program = torch.export.export(graph, (inputs,), dynamic_shapes=(every,), strict=False)
            content = WRITERS[path.suffix](program, list(inputs), outputs, metadata)
    except MRQError:
        raise
    except Exception as error:  # whatever an algorithm does that these formats do not have
        raise MRQError(f"this policy cannot be written as {path.suffix}: {one_line(error)}.") from error
    with written_aside(path) as file:
        file.write(content)


def _as_onnx(program: Export, inputs: list[str], outputs: list[str], metadata: Metadata) -> bytes:
    try:
        import onnx
        import onnxscript  # noqa: F401, PyTorch needs it
    except ImportError:
        raise MRQError("ONNX files need more packages; run: pip install 'mrq-rl[onnx]'") from None
    exported = torch.onnx.export(program, input_names=inputs, output_names=outputs, dynamo=True, verbose=False)
    assert exported is not None, "it is not asked to write a file"
    model = exported.model_proto
    onnx.helper.set_model_props(model, dict(metadata))
    content: bytes = model.SerializeToString()
    return content


def _as_pt2(program: Export, inputs: list[str], outputs: list[str], metadata: Metadata) -> bytes:
    file = BytesIO()
    torch.export.save(program, file, extra_files={METADATA: json.dumps(dict(metadata))})
    return file.getvalue()


WRITERS: dict[str, Callable[[Export, list[str], list[str], Metadata], bytes]] = {".onnx": _as_onnx, ".pt2": _as_pt2}


@contextmanager
def _quiet() -> Iterator[None]:
    """Leaves out what PyTorch says of packages that are not needed."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        logging.disable(logging.WARNING)
        try:
            yield
        finally:
            logging.disable(logging.NOTSET)
