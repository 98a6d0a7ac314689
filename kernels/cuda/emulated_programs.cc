// All programs, run thread after thread on the host: for tests, in the place of
// what nvcc makes of these files.
#include "kernels/cuda/adam.cu"
#include "kernels/cuda/attention_backward.cu"
#include "kernels/cuda/attention_forward.cu"
#include "kernels/cuda/elementwise.cu"
#include "kernels/cuda/embedding.cu"
#include "kernels/cuda/exact_sum.cu"
#include "kernels/cuda/head_loss.cu"
#include "kernels/cuda/layer_norm.cu"
