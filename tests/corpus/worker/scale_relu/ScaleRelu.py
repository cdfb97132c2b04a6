import inspect
import operator

import torch
from pass_dir._shared_kernels import dispatch_wrapper


def pattern():
    g = torch.fx.Graph()
    x, y = g.placeholder("x"), g.placeholder("y")
    s = g.call_function(operator.mul, (x, y))
    g.output(g.call_function(torch.nn.functional.relu, (s,), {"inplace": True}))
    m = torch.fx.GraphModule({}, g, "P")
    m.__signature__ = inspect.Signature([inspect.Parameter(n, inspect.Parameter.POSITIONAL_OR_KEYWORD) for n in ("x", "y")])
    return m


pattern = pattern()


def replacement_args(x, y):
    return (x, y, "scale_relu")


def replacement_func():
    return dispatch_wrapper
