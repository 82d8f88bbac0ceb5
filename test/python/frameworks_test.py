#!/usr/bin/env python3
"""docs/frameworks.md: accelerate, transformers, Lightning, DeepSpeed and Ray Train train on two ranks over Anello's groups,
as one process does, and torchmetrics counts.

frameworks_test.py REPOSITORY ANELLORUN LIBRARY. Needs a Python with torch and these packages: build/frameworks-venv, which
tools/test --nightly makes, or ANELLO_TEST_PYTHON.
"""

import pathlib
import subprocess
import sys
import tempfile
import unittest

import interpreter

REPOSITORY, ANELLORUN, LIBRARY = (pathlib.Path(word).resolve() for word in sys.argv[1:4])

COMMON = """
import os
import torch
import torch.distributed as dist

RANK, SIZE = int(os.environ.get("RANK", 0)), int(os.environ.get("WORLD_SIZE", 1))
ROWS = torch.Generator().manual_seed(3)
X = torch.randn(64, 8, generator=ROWS)
Y = X @ torch.arange(8.0).view(8, 1)


def model_of():
    torch.manual_seed(5)
    return torch.nn.Linear(8, 1)


def report(model):
    if SIZE > 1:
        group = dist.group.WORLD
        print("group", type(group).__module__, dist.get_backend())
    print("weights", *(f"{value:.5f}" for value in model.weight.flatten().tolist()))
"""

ACCELERATE = """
from accelerate import Accelerator

accelerator = Accelerator(cpu=True)
model = model_of()
model, optimizer = accelerator.prepare(model, torch.optim.SGD(model.parameters(), lr=0.05))
for step in range(4):
    batch = slice(16 * step + 16 // SIZE * RANK, 16 * step + 16 // SIZE * (RANK + 1))
    optimizer.zero_grad()
    accelerator.backward((model(X[batch]) - Y[batch]).square().mean())
    optimizer.step()
report(accelerator.unwrap_model(model))
"""

TRAINER = """
from transformers import Trainer, TrainingArguments


class Linear(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.inner = model_of()

    def forward(self, x, labels):
        out = self.inner(x)
        return {"loss": (out - labels).square().mean(), "logits": out}


class Rows(torch.utils.data.Dataset):
    def __len__(self):
        return 64

    def __getitem__(self, i):
        return {"x": X[i], "labels": Y[i]}


class InOrder(Trainer):
    def _get_train_sampler(self, *_):
        return torch.utils.data.SequentialSampler(self.train_dataset)


arguments = TrainingArguments("out", use_cpu=True, per_device_train_batch_size=16 // SIZE, num_train_epochs=1, optim="sgd",
                              learning_rate=0.05, lr_scheduler_type="constant", report_to=[], save_strategy="no",
                              disable_tqdm=True, max_grad_norm=0, logging_strategy="no")
model = Linear()
InOrder(model=model, args=arguments, train_dataset=Rows()).train()
report(model.inner)
"""

LIGHTNING = """
import lightning as L
from lightning.pytorch.strategies import DDPStrategy


class Linear(L.LightningModule):
    def __init__(self):
        super().__init__()
        self.inner = model_of()

    def training_step(self, batch):
        x, y = batch
        return (self.inner(x) - y).square().mean()

    def configure_optimizers(self):
        return torch.optim.SGD(self.parameters(), lr=0.05)


data = torch.utils.data.TensorDataset(X, Y)
in_order = torch.utils.data.DistributedSampler(data, SIZE, RANK, shuffle=False)  # Lightning's own would shuffle
rows = torch.utils.data.DataLoader(data, batch_size=16 // SIZE, sampler=in_order)
strategy = DDPStrategy(process_group_backend=BACKEND) if SIZE > 1 else "auto"
model = Linear()
L.Trainer(accelerator="cpu", devices=SIZE, strategy=strategy, max_epochs=1, logger=False, enable_checkpointing=False,
          enable_progress_bar=False, enable_model_summary=False, use_distributed_sampler=False).fit(model, rows)
report(model.inner)
"""

# DeepSpeed compiles an operation for shared memory at its first use, which takes minutes.
DEEPSPEED_FIRST = """
from deepspeed.comm.torch import build_shm_op

build_shm_op()
"""

DEEPSPEED = """
import contextlib

if SIZE > 1:
    import deepspeed

    deepspeed.init_distributed(dist_backend=BACKEND, auto_mpi_discovery=False)
model = model_of()
optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
whole = contextlib.nullcontext
if SIZE > 1:
    engine, _, _, _ = deepspeed.initialize(model=model, optimizer=optimizer, config={
        "train_micro_batch_size_per_gpu": 16 // SIZE, "zero_optimization": {"stage": STAGE},
        "zero_allow_untested_optimizer": True, "gradient_clipping": 0.0})
    forward, backward, step = engine, engine.backward, engine.step
    whole = lambda: deepspeed.zero.GatheredParameters(list(model.parameters()))
else:
    forward, backward = model, lambda loss: loss.backward()
    step = lambda: (optimizer.step(), optimizer.zero_grad())
for number in range(4):
    rows = slice(16 * number + 16 // SIZE * RANK, 16 * number + 16 // SIZE * (RANK + 1))
    backward((forward(X[rows]) - Y[rows]).square().mean())
    step()
with whole():
    report(model)
"""

# Ray starts the ranks. What they print comes late and with colours, so each leaves a file.
RAY = """
import contextlib
import pathlib

import ray
from ray.train import ScalingConfig
from ray.train.torch import TorchConfig, TorchTrainer, prepare_model


def work(config):
    rank, size = dist.get_rank(), dist.get_world_size()
    torch.manual_seed(5)
    model = prepare_model(torch.nn.Linear(8, 1))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
    for step in range(4):
        rows = slice(16 * step + 16 // size * rank, 16 * step + 16 // size * (rank + 1))
        optimizer.zero_grad()
        (model(config["x"][rows]) - config["y"][rows]).square().mean().backward()
        optimizer.step()
    with open(f"{config['folder']}/rank{rank}", "w") as file, contextlib.redirect_stdout(file):
        print("group", type(dist.group.WORLD).__module__, dist.get_backend())
        print("weights", *(f"{value:.5f}" for value in model.module.weight.flatten().tolist()))


if RANKS == 1:
    model = model_of()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
    for step in range(4):
        optimizer.zero_grad()
        (model(X[16 * step:16 * step + 16]) - Y[16 * step:16 * step + 16]).square().mean().backward()
        optimizer.step()
    report(model)
else:
    ray.init(num_cpus=RANKS, include_dashboard=False, logging_level="error")
    here = os.getcwd()
    TorchTrainer(work, train_loop_config={"x": X, "y": Y, "folder": here}, torch_config=TorchConfig(backend=BACKEND),
                 scaling_config=ScalingConfig(num_workers=RANKS)).fit()
    ray.shutdown()
    print(*(pathlib.Path(here, f"rank{rank}").read_text() for rank in range(RANKS)), sep="")
"""

TORCHMETRICS = """
import torchmetrics

if SIZE > 1:
    dist.init_process_group("gloo")
mine = slice(64 // SIZE * RANK, 64 // SIZE * (RANK + 1))
model, metric = model_of(), torchmetrics.MeanSquaredError()
metric.update(model(X[mine]), Y[mine])
best = torchmetrics.MaxMetric()
best.update(Y[mine])
kept = torchmetrics.CatMetric()  # gathers parts in place of summing them
kept.update(Y[mine])
model.weight.data[0, :3] = torch.stack([metric.compute(), best.compute(), kept.compute().sum()])
report(model)
"""


class Frameworks(unittest.TestCase):
    # ranks 0: as one process, which reports nothing. by_ray: anellorun does not start the ranks.
    def run_script(self, text, *needs, stands_in=True, ranks=2, around=None, by_ray=False):
        python, why_not = interpreter.with_torch(REPOSITORY, needs)
        if python is None:
            self.skipTest(why_not)
        with tempfile.TemporaryDirectory() as folder:
            script = pathlib.Path(folder) / "train.py"
            script.write_text(COMMON + text)
            settings = {**interpreter.environment(REPOSITORY, LIBRARY, folder), "CUDA_VISIBLE_DEVICES": "",
                        "HF_HUB_OFFLINE": "1", **({"ANELLO_TORCH_AS": "gloo"} if stands_in else {}), **(around or {})}
            command = [str(ANELLORUN), "-np", str(ranks)] if ranks > 1 and not by_ray else []
            done = subprocess.run([*command, python, "-W", "ignore", str(script)], env=settings, cwd=folder, text=True,
                                  capture_output=True, timeout=240, check=False)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        lines = done.stdout.splitlines()
        if ranks > 1:
            groups = [line for line in lines if line.startswith("group")]
            told = "gloo" if stands_in else "anello"
            self.assertEqual(groups, [f"group anello.torch.process_group {told}"] * ranks, done.stdout)
        weights = [[float(word) for word in line.split()[1:]] for line in lines if line.startswith("weights")]
        self.assertEqual(len(weights), ranks, done.stdout)
        return weights

    def as_alone(self, text, *needs, stands_in=True, around=None):
        (alone,) = self.run_script(text, *needs, ranks=1, around=around)
        for each in self.run_script(text, *needs, stands_in=stands_in, around=around):
            for ours, theirs in zip(each, alone, strict=True):
                self.assertAlmostEqual(ours, theirs, places=3)

    def test_accelerate(self):
        self.as_alone(ACCELERATE, "accelerate")

    def test_the_trainer_of_transformers(self):
        self.as_alone(TRAINER, "accelerate", "transformers")

    def test_lightning_unchanged(self):
        self.as_alone(LIGHTNING.replace("BACKEND", "None"), "lightning")

    def test_lightning_that_names_the_backend(self):
        self.as_alone(LIGHTNING.replace("BACKEND", '"anello"'), "lightning", stands_in=False)

    def as_deepspeed(self, backend, stage):
        environment = {"DS_ACCELERATOR": "cpu", "LOCAL_RANK": "0"}
        self.run_script(DEEPSPEED_FIRST, "deepspeed", ranks=0, around=environment)
        text = DEEPSPEED.replace("BACKEND", f'"{backend}"').replace("STAGE", str(stage))
        self.as_alone(text, "deepspeed", stands_in=backend == "gloo", around=environment)

    def test_zero_1_of_deepspeed(self):
        self.as_deepspeed("gloo", 1)

    def test_zero_2_of_deepspeed(self):
        self.as_deepspeed("gloo", 2)

    def test_zero_3_of_deepspeed(self):
        self.as_deepspeed("gloo", 3)

    def test_deepspeed_that_names_the_backend(self):
        self.as_deepspeed("anello", 2)

    def as_ray(self, backend):
        text, patience = RAY.replace("BACKEND", f'"{backend}"'), {"RAY_TRAIN_WORKER_GROUP_START_TIMEOUT_S": "200"}
        (alone,) = self.run_script(text.replace("RANKS", "1"), "ray", ranks=1)
        for each in self.run_script(text.replace("RANKS", "2"), "ray", stands_in=backend == "gloo", around=patience,
                                    by_ray=True):
            for ours, theirs in zip(each, alone, strict=True):
                self.assertAlmostEqual(ours, theirs, places=3)

    def test_ray_train(self):
        self.as_ray("gloo")

    def test_ray_train_that_names_the_backend(self):
        self.as_ray("anello")

    def test_torchmetrics(self):
        self.as_alone(TORCHMETRICS, "torchmetrics")


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1] + sys.argv[4:], verbosity=2)
