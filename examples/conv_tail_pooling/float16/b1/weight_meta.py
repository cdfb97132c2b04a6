class Program_weight_tensor_meta_in_0:
    name = "in_0"
    shape = [1, 32, 28, 28]
    dtype = "torch.float16"
    device = "cuda:0"
    mean = 0.0
    std = 1.0
    data = None

class Program_weight_tensor_meta_in_1:
    name = "in_1"
    shape = [1, 64, 28, 28]
    dtype = "torch.float16"
    device = "cuda:0"
    mean = 0.0
    std = 1.0
    data = None

class Program_weight_tensor_meta_w_0:
    name = "w_0"
    shape = [64, 32, 3, 3]
    dtype = "torch.float16"
    device = "cuda:0"
    mean = 0.0
    std = 0.3
    data = None

class Program_weight_tensor_meta_w_1:
    name = "w_1"
    shape = [64]
    dtype = "torch.float16"
    device = "cuda:0"
    mean = 0.0
    std = 0.5
    data = None

class Program_weight_tensor_meta_w_2:
    name = "w_2"
    shape = [64]
    dtype = "torch.float16"
    device = "cuda:0"
    mean = 1.0
    std = 0.2
    data = None
    min_val = 0.5
    max_val = 2.0

class Program_weight_tensor_meta_w_3:
    name = "w_3"
    shape = [64]
    dtype = "torch.float16"
    device = "cuda:0"
    mean = 1.0
    std = 0.2
    data = None

class Program_weight_tensor_meta_w_4:
    name = "w_4"
    shape = [64]
    dtype = "torch.float16"
    device = "cuda:0"
    mean = 0.0
    std = 0.2
    data = None

