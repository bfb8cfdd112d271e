"""PyTorch's operators, modules and optimizers, with the samples that its own tests use and its wheel brings.

Each is computed on the GPU and on the CPU, differentiated, and compiled by inductor, which uses Triton. To be copied to
a folder of its own and run by pytest in an environment with PyTorch, pytest and expecttest, then in another one, to
compare the two: some fail in each, such as random numbers, which a GPU draws in another order.
"""

import copy
import itertools
import unittest

import torch
from torch.testing import assert_close

torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = False  # the next imports lock these
# ruff: noqa: E402
from torch.testing._internal.common_device_type import instantiate_device_type_tests, ops
from torch.testing._internal.common_methods_invocations import op_db
from torch.testing._internal.common_modules import TrainEvalMode, module_db, modules
from torch.testing._internal.common_optimizers import optim_db, optims
from torch.testing._internal.common_utils import TestCase

SAMPLES = 4  # of each operator
NEAR = {"atol": 1e-3, "rtol": 1e-3}


def moved(value, device):
    """The same with each tensor on a device."""
    if isinstance(value, torch.Tensor):
        return value.detach().to(device).requires_grad_(value.requires_grad)
    if isinstance(value, (list, tuple)):
        found = [moved(each, device) for each in value]
        return type(value)(*found) if hasattr(value, "_fields") else type(value)(found)
    if isinstance(value, dict):
        return {name: moved(each, device) for name, each in value.items()}
    return torch.device(device) if isinstance(value, torch.device) else value


def computed(op, device, sample):
    torch.manual_seed(7)
    return op(*moved((sample.input, *sample.args), device), **moved(sample.kwargs, device))


def gradients(op, device, sample):
    """Of the sum of what comes out, by each tensor that goes in."""
    arguments = moved((sample.input, *sample.args), device)
    found = op(*arguments, **moved(sample.kwargs, device))
    found = found if isinstance(found, (list, tuple)) else [found]
    sums = [each.abs().sum() for each in found if isinstance(each, torch.Tensor) and each.requires_grad]
    inputs = [each for each in arguments if isinstance(each, torch.Tensor) and each.requires_grad]
    return torch.autograd.grad(sums, inputs, allow_unused=True) if sums and inputs else ()


def samples(op, dtype, **options):
    return itertools.islice(op.sample_inputs("cpu", dtype, **options), SAMPLES)


class TestOperators(TestCase):
    @ops(op_db, allowed_dtypes=(torch.float32, torch.complex64, torch.int64, torch.bool))
    def test_gpu_as_cpu(self, device, dtype, op):
        for sample in samples(op, dtype):
            assert_close(
                moved(computed(op, device, sample), "cpu"), computed(op, "cpu", sample), equal_nan=True, **NEAR
            )

    @ops([op for op in op_db if op.supports_autograd], allowed_dtypes=(torch.float64,))
    def test_gradient(self, device, dtype, op):
        for sample in samples(op, dtype, requires_grad=True):
            found = gradients(op, device, sample)
            assert all(each is None or each.is_cuda for each in found)
            assert_close(
                moved(found, "cpu"),
                gradients(op, "cpu", sample),
                atol=1e-5,
                rtol=1e-5,
                equal_nan=True,
                allow_subclasses=True,
            )

    @ops(op_db, allowed_dtypes=(torch.float32,))
    def test_compiled(self, device, dtype, op):
        sample = next(iter(op.sample_inputs(device, dtype)), None)
        if sample is None:
            raise unittest.SkipTest("no sample")
        torch._dynamo.reset()
        wanted = computed(op, device, sample)
        assert_close(
            computed(torch.compile(lambda *words, **named: op(*words, **named)), device, sample), wanted, **NEAR
        )


class TestModules(TestCase):
    @modules(module_db, allowed_dtypes=(torch.float32,), train_eval_mode=TrainEvalMode.train_and_eval)
    def test_gpu_as_cpu(self, device, dtype, module_info, training):
        options = {"device": "cpu", "dtype": dtype, "requires_grad": False, "training": training}
        for sample in module_info.module_inputs_func(module_info, **options):
            if (inputs := sample.forward_input) is None:
                continue
            torch.manual_seed(7)
            here = module_info.module_cls(*sample.constructor_input.args, **sample.constructor_input.kwargs)
            here = here.to("cpu", dtype).train(training)
            there = copy.deepcopy(here).to(device)
            wanted = here(*moved(inputs.args, "cpu"), **moved(inputs.kwargs, "cpu"))
            found = there(*moved(inputs.args, device), **moved(inputs.kwargs, device))
            if "Dropout" not in module_info.name:
                assert_close(moved(found, "cpu"), wanted, equal_nan=True, **NEAR)


def trained(optim_info, options, device):
    torch.manual_seed(7)
    model = torch.nn.Linear(8, 8).to(device)
    optimizer = optim_info.optim_cls(model.parameters(), **moved(options, device))

    def loss():
        optimizer.zero_grad()
        found = model(torch.ones(4, 8, device=device)).square().sum()
        found.backward()
        return found

    for _ in range(5):
        optimizer.step(loss)
    return model.weight.detach().cpu()


class TestOptimizers(TestCase):
    @optims([each for each in optim_db if not each.only_supports_sparse_grads], dtypes=[torch.float32])
    def test_gpu_as_cpu(self, device, dtype, optim_info):
        for sample in optim_info.optim_inputs_func(device="cpu"):
            assert_close(trained(optim_info, sample.kwargs, device), trained(optim_info, sample.kwargs, "cpu"), **NEAR)


for each in (TestOperators, TestModules, TestOptimizers):
    instantiate_device_type_tests(each, globals(), only_for=("cuda",))
