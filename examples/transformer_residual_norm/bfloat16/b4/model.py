import torch

class GraphModule(torch.nn.Module):

    def forward(self, in_0, in_1, w_0, w_1):
        tmp_0 = torch.nn.functional.gelu(in_1, approximate = 'none')
        tmp_1 = torch.nn.functional.dropout(tmp_0, 0.1, False, False)
        tmp_0 = None
        tmp_2 = in_0 + tmp_1
        tmp_1 = None
        tmp_3 = torch.nn.functional.layer_norm(tmp_2, (512,), w_1, w_0, 1e-05)
        tmp_2 = None
        return (tmp_3,)
