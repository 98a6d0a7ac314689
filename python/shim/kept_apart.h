// Tensors of a model that several ranks make together, while one rank keeps the
// values of each (python/castor/_shared_init.py).
//
// A tensor that is put away keeps its shape, type and one storage. The storage
// has its memory on the rank that keeps the values and none elsewhere, and
// reading it is PyTorch's error with our text, on every rank and in every
// alias.
#ifndef CASTOR_PYTHON_SHIM_KEPT_APART_H_
#define CASTOR_PYTHON_SHIM_KEPT_APART_H_

#include <ATen/core/Tensor.h>

#include <string>

namespace castor::shim {

// Puts `tensor`, a CPU tensor with a storage, away. Without `keep` its memory
// is freed. Whoever reads it until BringBack gets an error that says `why`.
void PutAway(const at::Tensor& tensor, bool keep, const std::string& why);

// Makes a tensor that PutAway put away readable. Where its memory was freed, it
// has new memory, whose bytes are to be written.
void BringBack(const at::Tensor& tensor);

}  // namespace castor::shim

#endif  // CASTOR_PYTHON_SHIM_KEPT_APART_H_
