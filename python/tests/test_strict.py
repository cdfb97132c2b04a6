"""Of the strict protocol what needs no processes: outputs that outlive the inputs they were made of, and whom its clock accuses."""
import torch

from passnet.worker import strict


def test_outputs_that_are_views_of_inputs_outlive_new_contents():
  x, y = torch.arange(12.0).reshape(3, 4), torch.ones(3, 4)
  total = x + y
  outputs = strict._apart((x.transpose(0, 1), y, total, 7), [x, y])
  x.fill_(-1.0)
  y.zero_()
  assert torch.equal(outputs[0], torch.arange(12.0).reshape(3, 4).transpose(0, 1)) and outputs[0].shape == (4, 3)
  assert torch.equal(outputs[1], torch.ones(3, 4)) and outputs[2] is total and outputs[3] == 7


def test_one_interrupted_block_accuses_nobody():
  """A median needs some blocks; and where children are timed beside each other no clock says anything."""
  reference = object.__new__(strict._Reference)
  interrupted, honest, lying = (0.3, 0.002), (0.0025, 0.002), (0.3, 0.002)
  for side_by_side, claims, wanted in ((False, [interrupted], None), (False, [interrupted, honest, honest], 0.006), (False, [lying] * 3, 0.006),
                                       (True, [lying] * 3, None)):
    reference.options, reference.claims, reference.beside = {"side_by_side": side_by_side}, claims, [0.0005] * len(claims)
    got = reference._own_clock()
    assert (got and got["claimed"]) == wanted
    assert got is None or got["seen"] == (0.0075 if claims[1] is honest else 0.9)
