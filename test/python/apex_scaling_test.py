"""apex.amp.scale_loss: scaled losses, and overflow that all ranks agree on."""

import contextlib
import io

import torch
from torch import nn

from apex import amp
from apex_case import INITIAL, Amp, initialize, net
from case import main


class Scaling(Amp):
    def scale(self, loss_id=0):
        return amp.state_dict()[f"loss_scaler{loss_id}"]["loss_scale"]

    def test_gradients_are_those_of_the_loss(self):
        for scale in ("dynamic", 1024.0):
            plain, (model, optimizer) = net(), self.made("O0", loss_scale=scale)
            with amp.scale_loss(self.loss(model), optimizer) as scaled:
                self.assertEqual(scaled.item(), self.loss(plain).item() * (INITIAL if scale == "dynamic" else scale))
                scaled.backward()
            self.loss(plain).backward()
            for one, other in zip(model.parameters(), plain.parameters()):
                self.close(one.grad, other.grad)

    def test_overflow_on_one_rank_skips_the_step_on_all(self):
        for level in ("O1", "O2"):
            model, optimizer = self.made(level)
            self.step(model, optimizer)
            before = [each.detach().clone() for each in model.parameters()]
            masters = [each.detach().clone() for each in amp.master_params(optimizer)]
            self.step(model, optimizer, factor=float("inf") if self.rank == self.size - 1 else 1.0)
            for one, other in zip((*model.parameters(), *amp.master_params(optimizer)), before + masters):
                self.same(one, other)
            self.assertEqual(self.scale(), INITIAL / 2)
            self.step(model, optimizer)
            self.assertFalse(torch.equal(model[0].weight, before[0]))
            self.assertEqual(self.scale(), INITIAL / 2)

    def test_rank_0_says_so(self):
        printed = io.StringIO()
        with contextlib.redirect_stdout(printed):
            model, optimizer = self.made("O2", verbosity=1)
            self.step(model, optimizer, factor=float("nan"))
        text = printed.getvalue()
        if self.rank == 0:
            self.assertIn("Gradient overflow. Skipping step, loss scaler 0 reducing loss scale to 32768.0", text)
            self.assertIn("Selected optimization level O2", text)
        else:
            self.assertEqual(text, "")

    def test_the_scale_doubles_after_2000_clean_steps_and_stays_within_its_limits(self):
        model = nn.Linear(1, 1)
        model, optimizer = initialize(model, self.sgd(model, lr=0.0), opt_level="O2", min_loss_scale=2.0 ** 15,
                                      max_loss_scale=2.0 ** 17)

        def step(factor=1.0):
            with amp.scale_loss(model(torch.ones(1, 1)).sum() * factor, optimizer) as scaled:
                scaled.backward()
            optimizer.step()

        for _ in range(3):
            step(float("inf"))
        self.assertEqual(self.scale(), 2.0 ** 15)
        amp.load_state_dict({"loss_scaler0": {"loss_scale": INITIAL, "unskipped": 1998}})
        step()
        self.assertEqual(self.scale(), INITIAL)
        step()
        self.assertEqual(amp.state_dict()["loss_scaler0"], {"loss_scale": 2 * INITIAL, "unskipped": 0})
        amp.load_state_dict({"loss_scaler0": {"loss_scale": 2 * INITIAL, "unskipped": 1999}})
        step()
        self.assertEqual(self.scale(), 2 * INITIAL)

    def test_a_static_scale_skips_nothing(self):
        model, optimizer = self.made("O2", loss_scale=128.0)
        self.step(model, optimizer, factor=float("inf"))
        self.assertEqual(self.scale(), 128.0)
        self.assertFalse(model[0].weight.isfinite().all())

    def test_gradients_of_several_backward_passes_add_up(self):
        for level in ("O0", "O2"):
            for delayed in ((False, False), (True, False), (True, False, False)):
                with self.subTest(level=level, delayed=delayed):
                    model, optimizer = self.made(level, loss_scale="dynamic")
                    parts = self.x[self.rank].chunk(len(delayed))
                    for part, delay in zip(parts, delayed):
                        with amp.scale_loss(model(part).square().mean(), optimizer, delay_unscale=delay) as scaled:
                            scaled.backward()
                        if delay:  # in the model, with the scale
                            self.assertGreater(model[3].bias.grad.float().norm().item(), 1000)
                    plain = net()
                    sum(plain(part).square().mean() for part in parts).backward()
                    for one, other in zip(amp.master_params(optimizer), plain.parameters()):
                        tolerance = 2e-2 if level == "O2" else 1e-6
                        torch.testing.assert_close(one.grad, other.grad, rtol=0.1, atol=tolerance)

    def test_an_exception_in_the_backward_pass_leaves_earlier_gradients(self):
        model, optimizer = self.made("O0", loss_scale="dynamic")
        with amp.scale_loss(self.loss(model), optimizer) as scaled:
            scaled.backward()
        before = model[0].weight.grad.clone()
        with self.assertRaisesRegex(ValueError, "on purpose"), amp.scale_loss(self.loss(model), optimizer):
            raise ValueError("on purpose")
        self.same(model[0].weight.grad, before)

    def test_several_losses_and_optimizers(self):
        for level in ("O1", "O2"):
            with self.subTest(level=level):
                models = [net(), net()]
                optimizers = [self.sgd(each) for each in models]
                models, optimizers = initialize(models, optimizers, opt_level=level, num_losses=3)
                before = [each[0].weight.detach().clone() for each in models]
                for i in (0, 1):
                    with amp.scale_loss(self.loss(models[i]), optimizers[i], loss_id=i) as scaled:
                        (scaled * (float("inf") if i == 1 and self.rank == 0 else 1)).backward()
                together = self.loss(models[0]) + self.loss(models[1])
                with amp.scale_loss(together, optimizers, loss_id=2) as scaled:
                    scaled.backward()
                for each in optimizers:
                    each.step()
                    each.zero_grad()
                self.assertEqual([self.scale(i) for i in range(3)], [INITIAL, INITIAL / 2, INITIAL])
                self.assertFalse(torch.equal(models[0][0].weight, before[0]))
                self.same(models[1][0].weight.detach(), before[1])

    def test_a_delayed_check_of_overflow_counts_in_the_next(self):
        model, optimizer = self.made("O2")
        before = model[0].weight.detach().clone()
        with amp.scale_loss(self.loss(model), optimizer, delay_overflow_check=True) as scaled:
            (scaled * float("inf")).backward()
        self.assertEqual(self.scale(), INITIAL)
        with amp.scale_loss(self.loss(model), optimizer) as scaled:
            scaled.backward()
        self.assertEqual(self.scale(), INITIAL / 2)
        optimizer.step()
        self.same(model[0].weight.detach(), before)

    def test_the_interface_before_initialize(self):
        handle = amp.init()
        self.assertTrue(handle.is_active())
        model = net()
        optimizer = handle.wrap_optimizer(self.sgd(model), num_loss=2)
        for factor, scale in ((float("inf"), INITIAL / 2), (1.0, INITIAL / 2)):
            before = model[0].weight.detach().clone()
            for i in (0, 1):
                with optimizer.scale_loss(self.loss(model)) as scaled:
                    (scaled * (factor if i == 0 else 1)).backward()
                if i == 0:
                    self.assertEqual(self.scale(), INITIAL if factor != 1 else scale)
            optimizer.step()
            optimizer.zero_grad()
            self.assertEqual(self.scale(), scale)
            self.assertEqual(torch.equal(model[0].weight, before), factor != 1)
        other = net()
        optimizer = self.sgd(other)
        with handle.scale_loss(self.loss(other), optimizer) as scaled:
            scaled.backward()
        optimizer.step()
        self.assertFalse(torch.equal(other[0].weight, net()[0].weight))


if __name__ == "__main__":
    main()
