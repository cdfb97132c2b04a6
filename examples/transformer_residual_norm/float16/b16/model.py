import torch

class GraphModule(torch.nn.Module):

    def forward(self, in_0, in_1, w_0, w_1):
        tmp_0 = torch.nn.functional.dropout(in_1, 0.1, False, False)
        tmp_1 = in_0 + tmp_0
        tmp_0 = None
        tmp_2 = torch.nn.functional.layer_norm(tmp_1, (512,), w_1, w_0, 1e-05)
        tmp_3 = torch.nn.functional.gelu(tmp_2, approximate = 'none')
        tmp_2 = None
        tmp_4 = tmp_1 + tmp_3
        tmp_1 = tmp_3 = None
        return (tmp_4,)
