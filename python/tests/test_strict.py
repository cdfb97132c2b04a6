"""Of the strict protocol what needs no processes: outputs that outlive the inputs they were made of."""
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
