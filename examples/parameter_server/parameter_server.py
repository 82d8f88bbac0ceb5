#!/usr/bin/env python3
"""Trains a small network on Fashion-MNIST with a parameter server: rank 0 has the weights, and all other ranks send it
gradients. The same as main.cpp beside it, for torch.distributed.

    anellorun -np 4 python parameter_server.py --mode sync       the mean of three workers' gradients is one update
    anellorun -np 4 python parameter_server.py --mode async      each gradient is an update, as soon as it arrives
    anellorun -np 4 python parameter_server.py --mode dc-asgd    likewise, compensated for the updates that it missed

With anellorun --keep-going, the asynchronous modes go on when a worker is lost. The package anello must be installed
(pip install ./python in a clone), and the data set too (Debian: dataset-fashion-mnist).
"""

import argparse
import json
import pathlib
import sys
import time

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.utils import parameters_to_vector, vector_to_parameters
from torch.utils.data import DistributedSampler

sys.path.append(str(pathlib.Path(__file__).resolve().parent.parent / "torch"))
from fashion_mnist import QUICK_IMAGES, evaluate, read_set  # noqa: E402


END = 1  # the tag of a worker's last message


class Client:
    """The server's end of one worker. Weights and gradients travel in a group that the worker shares with the server
    alone: when it is lost in the middle of a transfer, only that group fails."""

    def __init__(self, worker, count):
        self.worker, self.active, self.why_lost, self.version = worker, True, None, 0
        self.group = dist.new_group([0, worker], use_local_synchronization=True)
        self.weights, self.gradient = torch.zeros(count), torch.zeros(count)
        self.sending = self.receiving = None
        # The worker's last message. A worker may be lost when its gradient has arrived and its announcement has not, so
        # that nothing else of it is awaited here; this receive fails then.
        self.ending = dist.irecv(torch.empty(1), worker, self.group, tag=END)

    def give(self, weights, version):
        """Starts to send the weights, and to receive the gradient that they lead to. Does not wait for the worker."""
        try:
            if self.sending is not None:
                self.sending.wait()
            self.weights.copy_(weights)
            self.version = version
            self.receiving = dist.irecv(self.gradient, self.worker, self.group)
            self.sending = dist.isend(self.weights, self.worker, self.group)
        except RuntimeError as error:
            self.lose(error)

    def take(self):
        """The announced gradient, or None if the worker is lost."""
        try:
            self.receiving.wait()
        except RuntimeError as error:
            self.lose(error)
        return self.gradient if self.active else None

    def look(self):
        """Whether the worker was lost."""
        if self.ending.is_completed():
            try:
                self.ending.wait()
            except RuntimeError as error:
                self.lose(error)

    def lose(self, error):
        self.active, self.why_lost = False, str(error)


class Server:
    def __init__(self, network, options, images, test):
        self.network, self.options, self.test_images = network, options, test
        self.weights = parameters_to_vector(network.parameters()).detach()
        self.clients = [Client(worker, len(self.weights)) for worker in range(1, dist.get_world_size())]
        self.images_per_epoch = images
        self.images_planned = options.steps * options.batch * len(self.clients) if options.steps else images * options.epochs
        self.images = self.images_before = self.updates = 0
        self.loss, self.staleness, self.epochs, self.lost = 0.0, [], [], []

    def active(self):
        return sum(each.active for each in self.clients)

    def run(self):
        self.begun = time.perf_counter()
        for each in self.clients:
            each.give(self.weights, 0)
        self.run_synchronous() if self.options.mode == "sync" else self.run_asynchronous()
        self.test_network()
        self.seconds = time.perf_counter() - self.begun

    def run_synchronous(self):
        announcement = torch.zeros(3, dtype=torch.float64)
        while self.active():
            total = torch.zeros_like(self.weights)
            for client in self.clients:  # in the order of ranks, so that every run adds in the same order
                dist.recv(announcement, client.worker)
                gradient = client.take()
                if gradient is None:
                    raise RuntimeError(client.why_lost)
                total += gradient
                self.count(announcement, client)
            self.weights -= self.rate() / len(self.clients) * total
            self.updated()
            for client in self.clients:
                if client.active:
                    client.give(self.weights, self.updates)

    def run_asynchronous(self):
        announcement = torch.zeros(3, dtype=torch.float64)
        while self.active():
            try:
                client = self.clients[dist.recv(announcement, None) - 1]  # from any worker
            except RuntimeError as error:
                for each in self.clients:
                    if each.active:
                        each.lose(error)
                self.report_lost()
                break
            gradient = client.take() if client.active else None
            if gradient is not None:
                rate = self.rate()
                self.count(announcement, client)
                self.apply(client, gradient, rate)
                self.updated()
                if client.active:
                    client.give(self.weights, self.updates)
            for each in self.clients:
                if each.active:
                    each.look()
            self.report_lost()
        if len(self.lost) == len(self.clients):
            raise RuntimeError("all workers are lost")

    def apply(self, client, gradient, rate):
        if self.options.mode == "dc-asgd":
            # Zheng et al., Asynchronous Stochastic Gradient Descent with Delay Compensation (2017): the gradient at the
            # present weights, to first order, with the squares of the gradient in place of the Hessian's diagonal.
            gradient = gradient + self.options.compensation * gradient * gradient * (self.weights - client.weights)
        self.weights -= rate * gradient

    def rate(self):
        return self.options.learning_rate * max(0.0, 1 - self.images / self.images_planned)

    def count(self, announcement, client):
        loss, images, last = announcement.tolist()
        stale = self.updates - client.version
        self.staleness += [0] * (stale + 1 - len(self.staleness))
        self.staleness[stale] += 1
        self.images += int(images)
        self.loss += loss
        client.active = not last

    def updated(self):
        self.updates += 1
        if self.images >= min((len(self.epochs) + 1) * self.images_per_epoch, self.images_planned):
            self.test_network()

    def test_network(self):
        """At the end of an epoch, or of what came after the last one when workers were lost. The time does not count."""
        if self.images == self.images_before:
            return
        begun = time.perf_counter()
        vector_to_parameters(self.weights, self.network.parameters())
        accuracy = evaluate(self.network, *self.test_images, 0, 1)[1]
        loss = self.loss / (self.images - self.images_before)
        self.epochs.append({"loss": loss, "accuracy": accuracy})
        gradients = sum(self.staleness)
        mean = sum(n * number for n, number in enumerate(self.staleness)) / gradients
        print(f"epoch {len(self.epochs)}  loss {loss:.4f}  test accuracy {100 * accuracy:.2f} %  stale "
              f"{gradients - self.staleness[0]} of {gradients} gradients: {mean:.2f} updates on average, "
              f"{len(self.staleness) - 1} at most", flush=True)
        self.loss, self.images_before = 0.0, self.images
        self.begun += time.perf_counter() - begun

    def report_lost(self):
        for each in self.clients:
            if each.why_lost and each.worker not in self.lost:
                self.lost.append(each.worker)
                left = self.active()
                print(f"worker {each.worker} is lost, and {left} {'goes' if left == 1 else 'go'} on: {each.why_lost}", flush=True)

    def report(self):
        return {"mode": self.options.mode, "workers": len(self.clients), "gradients": sum(self.staleness),
                "updates": self.updates, "staleness": self.staleness, "lost": self.lost, "epochs": self.epochs,
                "seconds": self.seconds}


def work(network, options, images, labels):
    number, workers = dist.get_rank() - 1, dist.get_world_size() - 1
    server = dist.new_group([0, dist.get_rank()], use_local_synchronization=True)
    sampler = DistributedSampler(range(len(images)), workers, number, seed=options.seed, drop_last=True)
    batches = len(images) // workers // options.batch
    steps = options.steps or options.epochs * batches
    weights = parameters_to_vector(network.parameters()).detach()
    for step in range(steps):
        if step % batches == 0:
            sampler.set_epoch(step // batches + 1)
            drawn = torch.tensor(list(sampler))
        dist.recv(weights, 0, server)
        vector_to_parameters(weights, network.parameters())
        chosen = drawn[step % batches * options.batch:][:options.batch]
        network.zero_grad()
        loss = nn.functional.cross_entropy(network(images[chosen]), labels[chosen])
        loss.backward()
        # The announcement follows when the server has the gradient, so the server never waits for a worker's transfer.
        dist.send(parameters_to_vector(each.grad for each in network.parameters()), 0, server)
        last = step + 1 == steps
        dist.send(torch.tensor([loss.item() * options.batch, options.batch, last], dtype=torch.float64), 0)
    dist.send(torch.zeros(1), 0, server, tag=END)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--mode", choices=("sync", "async", "dc-asgd"), default="async")
    parser.add_argument("--epochs", type=int, default=3)
    parser.add_argument("--batch", type=int, default=100, help="images of one gradient of one worker")
    parser.add_argument("--steps", type=int, default=0, help="gradients of each worker, instead of whole epochs")
    parser.add_argument("--learning-rate", type=float, default=0.1, help="of the first update; falls linearly to 0")
    parser.add_argument("--compensation", type=float, default=0.04, help="lambda of DC-ASGD")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--data", default="/usr/share/datasets/fashion-mnist")
    parser.add_argument("--json", help="file to which rank 0 writes figures")
    parser.add_argument("--quick", action="store_true", help=f"one epoch over {QUICK_IMAGES} images")
    options = parser.parse_args()
    torch.set_num_threads(1)
    torch.manual_seed(options.seed)
    images, labels = read_set(options.data, "train")
    if options.quick:
        options.epochs, images, labels = 1, images[:QUICK_IMAGES], labels[:QUICK_IMAGES]
    network = nn.Sequential(nn.Linear(784, 128), nn.ReLU(), nn.Linear(128, 64), nn.ReLU(), nn.Linear(64, 10))
    dist.init_process_group("anello")
    workers = dist.get_world_size() - 1
    if workers < 1:
        sys.exit("a server needs a worker: start at least two ranks (anellorun -np 2)")
    if len(images) < workers * options.batch:
        sys.exit(f"{len(images)} images are too few for a batch of {options.batch} on each of {workers} workers")
    if dist.get_rank() > 0:
        work(network, options, images, labels)
    else:
        each = len(images) // workers // options.batch * options.batch
        server = Server(network, options, each * workers, read_set(options.data, "t10k"))
        server.run()
        if options.json:
            pathlib.Path(options.json).write_text(json.dumps(server.report(), indent=2) + "\n")
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
