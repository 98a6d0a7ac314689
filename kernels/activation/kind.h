// The activation functions.
#ifndef CASTOR_KERNELS_ACTIVATION_KIND_H_
#define CASTOR_KERNELS_ACTIVATION_KIND_H_

namespace castor::kernels {

enum class Activation {
  kRelu,      // max(x, 0)
  kGelu,      // x Phi(x), Phi the normal distribution: Hugging Face's "gelu"
  kGeluTanh,  // 0.5 x (1 + tanh(sqrt(2 / pi) (x + 0.044715 x^3))): "gelu_new"
  kSilu,      // x / (1 + e^-x)
  kTanh,      // tanh x: BERT's pooler
};

inline constexpr Activation kAllActivations[] = {
    Activation::kRelu, Activation::kGelu, Activation::kGeluTanh,
    Activation::kSilu, Activation::kTanh};

}  // namespace castor::kernels

#endif  // CASTOR_KERNELS_ACTIVATION_KIND_H_
