"""apex.amp: levels of optimization, master weights and checkpoints."""

import copy
import io

import torch
from torch import nn
from torch.nn import functional

from apex import amp
from apex.parallel import DistributedDataParallel
from apex_case import Amp, initialize, net
from case import main


class Levels(Amp):
    def test_each_level_trains_and_ranks_stay_equal(self):
        for level in ("O0", "O1", "O2", "O3"):
            with self.subTest(level=level):
                model, optimizer = self.made(level)
                wrapped = DistributedDataParallel(model)
                losses = [self.step(wrapped, optimizer) for _ in range(30)]
                self.assertLess(losses[-1], 0.2)
                self.assertGreater(losses[0], 0.5)
                self.equal_on_all(model.parameters())
                self.equal_on_all(amp.master_params(optimizer))

    def test_O0_is_float32_training(self):
        plain, (model, optimizer) = net(), self.made("O0")
        ordinary = self.sgd(plain)
        for _ in range(3):
            self.step(model, optimizer)
            self.loss(plain).backward()
            ordinary.step()
            ordinary.zero_grad()
        for one, other in zip(model.parameters(), plain.parameters()):
            self.same(one, other)

    def types(self, model):
        return [each.dtype for each in model.parameters()]

    def test_types_of_parameters_masters_and_outputs(self):
        full, half = torch.float32, torch.bfloat16
        for level, parameters, masters, output in (("O0", [full] * 6, [full] * 6, full),
                                                   ("O1", [full] * 6, [full] * 6, half),
                                                   ("O2", [half, half, full, full, half, half], [full] * 6, full),
                                                   ("O3", [half] * 6, [half] * 6, full)):
            with self.subTest(level=level):
                model, optimizer = self.made(level)
                self.assertEqual(self.types(model), parameters)
                self.assertEqual([each.dtype for each in amp.master_params(optimizer)], masters)
                self.assertEqual(model(self.x[0]).dtype, output)
                if level == "O2":
                    self.assertEqual(model[1].running_mean.dtype, full)

    def test_changes_of_a_levels_defaults(self):
        half = torch.bfloat16
        self.assertEqual(set(self.types(self.made("O2", keep_batchnorm_fp32=False)[0])), {half})
        self.assertEqual(set(self.types(self.made("O2", keep_batchnorm_fp32="False")[0])), {half})
        model, optimizer = self.made("O3", keep_batchnorm_fp32="True", master_weights=True, loss_scale="128.0")
        self.assertEqual(self.types(model)[2], torch.float32)
        self.assertEqual({each.dtype for each in amp.master_params(optimizer)}, {torch.float32})
        self.assertEqual(amp.state_dict()["loss_scaler0"]["loss_scale"], 128.0)
        self.assertEqual(self.made("O2", cast_model_outputs=torch.float64)[0](self.x[0]).dtype, torch.float64)
        self.assertEqual(self.made("O1", cast_model_outputs=torch.float32)[0](self.x[0]).dtype, torch.float32)
        self.assertEqual(self.types(self.made("O3", cast_model_type=torch.float16)[0])[0], torch.float16)

    def test_O1_casts_matrix_products_and_keeps_losses_in_float32(self):
        model, optimizer = self.made("O1")
        a = torch.randn(4, 4)
        self.assertEqual((a @ a).dtype, torch.bfloat16)
        self.assertEqual(self.loss(model).dtype, torch.float32)
        with amp.disable_casts():
            self.assertEqual((a @ a).dtype, torch.float32)
        self.assertEqual((a @ a).dtype, torch.bfloat16)

    def test_O1_computes_with_the_weights_of_the_last_step(self):
        model, optimizer = self.made("O1")
        weight = torch.nn.Parameter(torch.eye(8))
        for call in (lambda: model(self.x[0]), lambda: self.x[0] @ weight):
            before = call()
            with torch.no_grad():
                model[3].weight.mul_(2)
                weight.mul_(2)
            self.assertFalse(torch.equal(before, call()))

    def test_a_copy_of_a_model_is_a_model_of_its_own(self):
        for level in ("O1", "O2"):
            model, _ = self.made(level)
            other = copy.deepcopy(model)
            with torch.no_grad():
                other[3].weight.zero_()
                other[3].bias.zero_()
            self.assertEqual(other(self.x[0]).abs().max().item(), 0)
            self.assertGreater(model(self.x[0]).abs().max().item(), 0)

    def test_functions_of_the_program(self):
        class Module:
            @staticmethod
            def half(x):
                return x

            full, widest = half, staticmethod(lambda x, y: (x, y))

        amp.register_half_function(Module, "half")
        amp.register_float_function(Module, "full")
        amp.register_promote_function(Module, "widest")
        decorated = [amp.half_function(lambda x: x), amp.float_function(lambda x: x @ x),
                     amp.promote_function(lambda x, y: (x, y))]
        full, half = torch.ones(2, 2), torch.ones(2, 2).bfloat16()
        self.assertEqual(decorated[0](full).dtype, torch.float32)  # casts are not on yet
        self.made("O1")
        for name, wrapper in (("half", decorated[0]), ("full", decorated[1]), ("widest", decorated[2])):
            with self.subTest(name=name):
                registered = getattr(Module, name)
                if name == "widest":
                    promoted = *wrapper(full, half), *registered(full, half)
                    self.assertEqual([each.dtype for each in promoted], [torch.float32] * 4)
                else:
                    expected = torch.bfloat16 if name == "half" else torch.float32
                    found = {wrapper(full).dtype, registered(half).dtype, wrapper(half).dtype}
                    self.assertEqual(found, {expected})
        self.assertEqual(decorated[0](torch.ones(1, dtype=torch.int64)).dtype, torch.int64)
        with self.assertRaisesRegex(ValueError, "no function named nothing"):
            amp.register_half_function(Module, "nothing")

    def test_forms_of_models_and_optimizers(self):
        model = net()
        self.assertIs(initialize(model, opt_level="O2"), model)
        models = [net(), net()]
        self.assertIs(initialize(models, opt_level="O2"), models)
        model = net()
        optimizer = self.sgd(model)
        self.assertEqual(initialize([model], optimizer, opt_level="O2"), ([model], optimizer))

    def test_not_enabled(self):
        model, optimizer = self.made("O2", enabled=False)
        self.assertEqual(set(self.types(model)), {torch.float32})
        loss = self.loss(model)
        with amp.scale_loss(loss, optimizer) as scaled:
            self.assertIs(scaled, loss)

    def test_what_is_refused(self):
        for words, act in ((r"opt_level is '02'", lambda: self.made("02")),
                           ("float32", lambda: initialize(net().bfloat16(), opt_level="O2")),
                           ("keep_batchnorm_fp32 has no place", lambda: self.made("O1", keep_batchnorm_fp32=True)),
                           ("belongs to opt_level O1", lambda: self.made("O2", patch_torch_functions=True)),
                           ("neither True nor False", lambda: self.made("O2", keep_batchnorm_fp32="yes")),
                           ("positive number", lambda: self.made("O2", loss_scale="big")),
                           ("parallel wrapper", lambda: initialize(DistributedDataParallel(net()), opt_level="O2"))):
            with self.subTest(words=words), self.assertRaisesRegex(RuntimeError, words):
                act()
        model, optimizer = self.made("O2")
        with self.assertRaisesRegex(RuntimeError, "a model only once"):
            initialize(model, opt_level="O2")
        fresh = net()
        with self.assertRaisesRegex(RuntimeError, "an optimizer only once"):
            initialize(fresh, optimizer, opt_level="O2")
        self.assertEqual(set(self.types(fresh)), {torch.float32})  # nothing was changed
        with self.assertRaisesRegex(TypeError, "takes optimizers"):
            initialize(fresh, [[]], opt_level="O2")
        with self.assertRaisesRegex(TypeError, "takes modules"):
            initialize(len, opt_level="O2")
        with self.assertRaisesRegex(RuntimeError, "has not seen"), amp.scale_loss(torch.ones(1), self.sgd(net())):
            pass
        with self.assertRaisesRegex(IndexError, "num_losses=2"), amp.scale_loss(torch.ones(1), optimizer, loss_id=1):
            pass
        with self.assertRaisesRegex(NotImplementedError, "closure"):
            optimizer.step(lambda: 0)


class Masters(Amp):
    def test_small_updates_add_up_in_master_weights_only(self):
        def trained(level):
            model = nn.Linear(1, 1, bias=False)
            nn.init.ones_(model.weight)
            optimizer = torch.optim.SGD(model.parameters(), lr=2.0 ** -11)
            model, optimizer = initialize(model, optimizer, opt_level=level)
            for _ in range(16):
                with amp.scale_loss(model(torch.ones(1, 1)).sum(), optimizer) as scaled:
                    scaled.backward()
                optimizer.step()
                optimizer.zero_grad()
            return model.weight.item()

        self.assertEqual(trained("O2"), 1 - 16 * 2.0 ** -11)
        self.assertEqual(trained("O3"), 1.0)

    def test_an_optimizer_that_has_made_steps_before(self):
        for level, dtype in (("O2", torch.float32), ("O3", torch.bfloat16)):
            model = net()
            optimizer = self.sgd(model)
            self.loss(model).backward()
            optimizer.step()
            momenta = [optimizer.state[each]["momentum_buffer"].clone() for each in model.parameters()]
            model, optimizer = initialize(model, optimizer, opt_level=level)
            self.assertEqual(len(optimizer.state), 6)
            for each, momentum in zip(amp.master_params(optimizer), momenta):
                self.same(optimizer.state[each]["momentum_buffer"], momentum.to(dtype))
            self.step(model, optimizer)

    def test_model_zero_grad_is_enough(self):
        model, optimizer = self.made("O2")
        other, theirs = self.made("O2")
        for _ in range(3):
            self.step(other, theirs)
            with amp.scale_loss(self.loss(model), optimizer) as scaled:
                scaled.backward()
            optimizer.step()
            model.zero_grad()
        for one, two in zip(model.parameters(), other.parameters()):
            self.same(one, two)

    def test_zero_grad_reaches_models_and_masters(self):
        for to_none in (True, False):
            model, optimizer = self.made("O2")
            with amp.scale_loss(self.loss(model), optimizer) as scaled:
                scaled.backward()
            optimizer.zero_grad(set_to_none=to_none)
            for each in (*model.parameters(), *amp.master_params(optimizer)):
                self.assertTrue(each.grad is None if to_none else not each.grad.any())

    def test_a_group_of_parameters_that_comes_later(self):
        model, late = nn.Linear(8, 2), nn.Linear(8, 2)
        optimizer = self.sgd(model)
        (model, late), optimizer = initialize([model, late], optimizer, opt_level="O2")
        optimizer.add_param_group({"params": list(late.parameters()), "lr": 0.5})
        before = late.weight.detach().clone()
        loss = functional.cross_entropy(model(self.x[0]) + late(self.x[0]), self.y[0])
        with amp.scale_loss(loss, optimizer) as scaled:
            scaled.backward()
        optimizer.step()
        self.assertFalse(torch.equal(before, late.weight))
        self.assertEqual({each.dtype for each in amp.master_params(optimizer)}, {torch.float32})

    def test_masters_follow_weights_that_come_from_elsewhere(self):
        model, optimizer = self.made("O2")
        with torch.no_grad():
            model[0].weight.fill_(self.rank + 1.0)  # before the wrapper brings rank 0's
        wrapped = DistributedDataParallel(model)
        self.step(wrapped, optimizer)
        self.equal_on_all(amp.master_params(optimizer))
        self.assertLess((next(amp.master_params(optimizer)) - 1).abs().max().item(), 0.2)  # rank 0 had ones
        fresh = {name: torch.zeros_like(value) for name, value in model.state_dict().items()}
        wrapped.load_state_dict({f"module.{name}": value for name, value in fresh.items()})
        optimizer.zero_grad()
        optimizer.step()
        self.assertFalse(any(each.any() for each in amp.master_params(optimizer)))
        self.assertFalse(model[0].weight.any())

    def test_a_scheduler_and_clipping(self):
        model, optimizer = self.made("O2")
        scheduler = torch.optim.lr_scheduler.StepLR(optimizer, 1, gamma=0.5)
        with amp.scale_loss(self.loss(model), optimizer) as scaled:
            scaled.backward()
        torch.nn.utils.clip_grad_norm_(amp.master_params(optimizer), 1e-3)
        before = [each.detach().clone() for each in amp.master_params(optimizer)]
        optimizer.step()
        scheduler.step()
        moved = sum((one - other).square().sum() for one, other in zip(amp.master_params(optimizer), before)).sqrt()
        self.assertLess(moved.item(), 1.01e-4)
        self.assertEqual(optimizer.param_groups[0]["lr"], 0.05)


class Checkpoints(Amp):
    def test_training_goes_on_from_a_checkpoint_to_the_same_bits(self):
        for level in ("O0", "O1", "O2", "O3"):
            with self.subTest(level=level):
                model, optimizer = self.made(level)
                # So that the scale is not the first one.
                self.step(model, optimizer, factor=float("inf") if level in ("O1", "O2") else 1.0)
                for _ in range(3):
                    self.step(model, optimizer)
                saved = io.BytesIO()
                torch.save([model.state_dict(), optimizer.state_dict(), amp.state_dict()], saved)
                scale = amp.state_dict()
                expected = [self.step(model, optimizer) for _ in range(3)] + list(model.parameters())

                saved.seek(0)
                states = torch.load(saved, weights_only=True)
                model, optimizer = self.made(level)
                model.load_state_dict(states[0])
                optimizer.load_state_dict(states[1])
                amp.load_state_dict(states[2])
                self.assertEqual(amp.state_dict(), scale)
                actual = [self.step(model, optimizer) for _ in range(3)] + list(model.parameters())
                for one, other in zip(actual, expected):
                    self.assertTrue(torch.equal(torch.as_tensor(one), torch.as_tensor(other)))

    def test_a_checkpoint_of_a_16_bit_model_is_in_float32(self):
        model, _ = self.made("O2")
        found = {each.dtype for each in model.state_dict().values() if each.is_floating_point()}
        self.assertEqual(found, {torch.float32})
        net().load_state_dict(model.state_dict())

    def test_other_numbers_of_losses(self):
        self.made("O1", num_losses=2)
        saved = amp.state_dict()
        saved["loss_scaler0"]["loss_scale"] = 4.0
        self.made("O1")
        with self.assertWarnsRegex(UserWarning, "2 loss scalers"):
            amp.load_state_dict(saved)
        self.assertEqual(amp.state_dict()["loss_scaler0"]["loss_scale"], 4.0)
        with self.assertRaisesRegex(RuntimeError, "does not know: model"):
            amp.load_state_dict({"model": {}})


if __name__ == "__main__":
    main()
