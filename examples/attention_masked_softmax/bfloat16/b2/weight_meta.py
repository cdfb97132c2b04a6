class Program_weight_tensor_meta_in_0:
    name = "in_0"
    shape = [2, 8, 64, 64]
    dtype = "torch.bfloat16"
    device = "cuda:0"
    mean = 0.0
    std = 1.0
    data = None

class Program_weight_tensor_meta_in_1:
    name = "in_1"
    shape = [2, 1, 1, 64]
    dtype = "torch.bfloat16"
    device = "cuda:0"
    mean = -0.5
    std = 0.5
    data = None

class Program_weight_tensor_meta_in_2:
    name = "in_2"
    shape = [2, 8, 64, 32]
    dtype = "torch.bfloat16"
    device = "cuda:0"
    mean = 0.0
    std = 1.0
    data = None

