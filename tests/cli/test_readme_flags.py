"""Flags of bnn_hmc: all are known, and its commands are the recipes at full scale."""

import pytest

from bayesnn_ppl.experiments import load_recipe
from bayesnn_ppl.experiments.bnn_hmc_flags import FLAGS
from bayesnn_ppl.experiments.flag_translation import settings_of_flags
from tests.cli.conftest import parsed

# The flags that its README names, script by script.
README = {
    "all": "seed dir dataset_name subset_train_to model_name weight_decay temperature "
    "init_checkpoint tabulate_freq use_float64",
    "run_hmc": "step_size trajectory_len num_iterations max_num_leapfrog_steps "
    "num_burn_in_iterations",
    "run_sgd": "init_step_size num_epochs batch_size eval_freq save_freq momentum_decay",
    "run_sgmcmc": "preconditioner step_size_schedule num_burnin_epochs final_step_size "
    "step_size_cycle_length_epochs save_all_ensembled ensemble_freq momentum",
    "run_vi": "optimizer vi_sigma_init vi_ensemble_size mean_init_checkpoint",
    "make_posterior_surface_plot": "limit_bottom limit_top limit_left limit_right grid_size "
    "checkpoint1 checkpoint2 checkpoint3",
}

# Its commands, beside the recipe that each of them is.
COMMANDS = {
    "hmc-imdb": "--seed=1 --weight_decay=40. --temperature=1. --dir=runs/hmc/imdb/ "
    "--dataset_name=imdb --model_name=cnn_lstm --use_float64 --step_size=1e-5 "
    "--trajectory_len=0.24 --max_num_leapfrog_steps=30000",
    "hmc-imdb-t03": "--seed=1 --weight_decay=40. --temperature=0.3 --dir=runs/hmc/imdb/ "
    "--dataset_name=imdb --model_name=cnn_lstm --use_float64 --step_size=3e-6 "
    "--trajectory_len=0.136 --max_num_leapfrog_steps=46000",
    "hmc-imdb-t01": "--seed=1 --weight_decay=40. --temperature=0.1 --dir=runs/hmc/imdb/ "
    "--dataset_name=imdb --model_name=cnn_lstm --use_float64 --step_size=1e-6 "
    "--trajectory_len=0.078 --max_num_leapfrog_steps=90000",
    "hmc-imdb-t003": "--seed=1 --weight_decay=40. --temperature=0.03 --dir=runs/hmc/imdb/ "
    "--dataset_name=imdb --model_name=cnn_lstm --use_float64 --step_size=1e-6 "
    "--trajectory_len=0.043 --max_num_leapfrog_steps=45000",
    "hmc-mnist160": "--seed=0 --weight_decay=1. --temperature=1. --dir=runs/hmc/mnist_subset160 "
    "--dataset_name=mnist --model_name=mlp_classification --step_size=3.e-5 --trajectory_len=1.5 "
    "--num_iterations=100 --max_num_leapfrog_steps=50000 --num_burn_in_iterations=10 "
    "--subset_train_to=160",
    "sgd-cifar10": "--seed=1 --weight_decay=10 --dir=runs/sgd/cifar10/ --dataset_name=cifar10 "
    "--model_name=resnet20_frn_swish --init_step_size=3e-7 --num_epochs=500 --eval_freq=10 "
    "--batch_size=80 --save_freq=500 --subset_train_to=40960",
    "sgd-cifar100": "--seed=1 --weight_decay=10 --dir=runs/sgd/cifar100/ --dataset_name=cifar100 "
    "--model_name=resnet20_frn_swish --init_step_size=1e-6 --num_epochs=500 --eval_freq=10 "
    "--batch_size=80 --save_freq=500 --subset_train_to=40960",
    # No subset there: the rows are given here, so that the test needs no data.
    "sgd-imdb": "--seed=1 --weight_decay=3. --dir=runs/sgd/imdb/ --dataset_name=imdb "
    "--model_name=cnn_lstm --init_step_size=3e-7 --num_epochs=500 --eval_freq=10 --batch_size=80 "
    "--save_freq=500 --subset_train_to=20000",
    "sgld-cifar10": "--seed=1 --weight_decay=5. --dir=runs/sgmcmc/cifar10/ "
    "--dataset_name=cifar10 --model_name=resnet20_frn_swish --init_step_size=1e-6 "
    "--final_step_size=1e-6 --num_epochs=10000 --num_burnin_epochs=1000 --eval_freq=10 "
    "--batch_size=80 --save_freq=10 --momentum=0. --subset_train_to=40960",
    "sghmc-cifar10": "--seed=1 --weight_decay=5 --dir=runs/sgmcmc/cifar10/ "
    "--dataset_name=cifar10 --model_name=resnet20_frn_swish --init_step_size=3e-7 "
    "--final_step_size=3e-7 --num_epochs=10000 --num_burnin_epochs=1000 --eval_freq=10 "
    "--batch_size=80 --save_freq=10 --subset_train_to=40960 --momentum=0.9",
    "sghmc-clr-cifar10": "--seed=1 --weight_decay=5 --dir=runs/sgmcmc/cifar10/ "
    "--dataset_name=cifar10 --model_name=resnet20_frn_swish --init_step_size=3e-7 "
    "--num_epochs=10000 --num_burnin_epochs=1000 --step_size_schedule=cyclical "
    "--step_size_cycle_length_epochs=50 --ensemble_freq=50 --eval_freq=10 --batch_size=80 "
    "--save_freq=1000 --subset_train_to=40960 --preconditioner=None --momentum=0.95 "
    "--eval_freq=10 --save_all_ensembled",
    "sghmc-clr-prec-cifar10": "--seed=1 --weight_decay=5 --dir=runs/sghmc/cifar10/ "
    "--dataset_name=cifar10 --model_name=resnet20_frn_swish --init_step_size=3e-5 "
    "--num_epochs=10000 --num_burnin_epochs=1000 --step_size_schedule=cyclical "
    "--step_size_cycle_length_epochs=50 --ensemble_freq=50 --eval_freq=10 --batch_size=80 "
    "--save_freq=50 --subset_train_to=40960 --preconditioner=RMSprop --momentum=0.95 "
    "--eval_freq=10 --save_all_ensembled",
}

# Those of variational inference, but for the checkpoint that they begin at.
for _name, _rows, _epochs in (("cifar10", 40960, 300), ("imdb", 20000, 500)):
    COMMANDS[f"mfvi-{_name}"] = (
        f"--seed=11 --weight_decay=5. --dir=runs/vi/{_name}/ --dataset_name={_name} "
        f"--init_step_size=1e-4 --num_epochs={_epochs} --eval_freq=10 --batch_size=80 "
        f"--save_freq=200 --subset_train_to={_rows} --vi_sigma_init=0.01 --temperature=1. "
        f"--vi_ensemble_size=20 --model_name="
        + {"cifar10": "resnet20_frn_swish", "imdb": "cnn_lstm"}[_name]
    )


def translated(recipe, line, scale="full"):
    _, found = parsed(f"run {recipe} {line}")
    given = {name: value for name in FLAGS if (value := getattr(found["flags"], name))}
    recipe = load_recipe(recipe)
    return settings_of_flags(given, recipe, recipe.at(scale))


def test_every_flag_of_the_readme_is_known_and_no_other():
    flags = [flag for words in README.values() for flag in words.split()]
    assert sorted(flags) == sorted(FLAGS)
    used = {word.split("=")[0] for line in COMMANDS.values() for word in line.split()}
    assert used <= {f"--{flag}" for flag in flags}


@pytest.mark.parametrize("name", COMMANDS)
def test_a_command_of_the_readme_is_the_recipe(name):
    found, folder, answers = translated(name, COMMANDS[name])
    full = load_recipe(name).at("full")
    for setting, value in found.items():
        # Said by a default in the recipe, or needed to know the rows.
        usual = {
            "keep": "weights",
            "preconditioner": "none",
            "final_step_size": full.get("step_size"),
            "steps_per_cycle": full.get("steps_per_draw"),
            "subset": 20000,
        }
        expected = full.get(setting, usual.get(setting))
        assert value == (expected if isinstance(expected, str) else pytest.approx(expected)), (
            setting
        )
    assert folder.startswith("runs/")
    assert len(answers) == sum(word in COMMANDS[name] for word in ("--eval_freq", "--save_freq"))
    assert {"seed", "data", "model", "prior_variance"} <= set(found)


def test_another_value_is_another_setting():
    """The test above would pass a translation that returned the recipe's own settings."""
    line = COMMANDS["sghmc-clr-cifar10"].replace("num_burnin_epochs=1000", "num_burnin_epochs=500")
    found, *_ = translated("sghmc-clr-cifar10", line.replace("decay=5", "decay=20"))
    assert (found["warmup"], found["draws"]) == (10, 190) and found["prior_variance"] == 0.05
    found, *_ = translated("sgd-cifar10", "--init_step_size=1e-6 --momentum_decay=0.5")
    assert found == {"learning_rate": pytest.approx(0.04096), "momentum": 0.5}
    found, *_ = translated("uci-hmc", "--dataset_name=yacht_2")
    assert found == {"data": "yacht", "split": 2}
    found, *_ = translated("sgld-cifar10", "--ensemble_freq=10 --num_epochs=60", "tiny")
    assert found == {"steps_per_draw": 200, "warmup": 2, "draws": 4}  # 20 minibatches of digits
    found, *_ = translated("hmc-imdb", "--init_checkpoint=runs/sgd")
    assert found == {"init": "runs/sgd"}
    found, *_ = translated("mfvi-imdb", "--mean_init_checkpoint=runs/sgd")
    assert found["mode"] == "runs/sgd"
    assert not any(found[name] for name in found if name.startswith("mode_"))
    found, *_ = translated("sgd-imdb", "--optimizer=Adam")
    assert found == {"optimiser": "adamw"}
    found, *_ = translated("sgd-cifar10", "--model_name=resnet20_frn")
    assert found == {"model": "resnet20_frn", "activation": "relu"}  # ours is of swish units
    found, *_ = translated("sgd-cifar10", "--model_name=logistic_regression")
    assert found == {"model": "logistic"}


@pytest.mark.parametrize(
    ("name", "line", "sentence"),
    [
        ("hmc-imdb", "--max_num_leapfrog_steps=20000", "24000 leapfrog steps"),
        ("sgd-imdb", "--max_num_leapfrog_steps=20000", "is not HMC"),
        ("sgd-imdb", "--init_checkpoint=x", "`bayesnn resume`"),
        ("hmc-imdb", "--checkpoint2=x", "plot_surface"),
        ("sgd-imdb", "--mean_init_checkpoint=x", "begins at no other network"),
        ("hmc-imdb", "--num_epochs=3", "takes no minibatches"),
        ("sgld-cifar10", "--num_epochs=1003", "do not make whole draws"),
        ("sgld-cifar10", "--momentum=0.9", "has no momentum"),
        ("hmc-mnist160", "--num_iterations=10", "leaves none to keep"),
        ("hmc-mnist160", "--num_iterations=many", "takes a number, not `many`"),
        ("hmc-mnist160", "--num_iterations=3.5", "integer"),
        ("sghmc-clr-cifar10", "--preconditioner=RMSProp", "Did you mean `RMSprop`"),
    ],
)
def test_flags_without_a_counterpart_are_answered(name, line, sentence):
    with pytest.raises(ValueError, match=sentence):
        translated(name, line)
