// The names of a model's files of weights in a Hugging Face directory.
#ifndef CASTOR_RUNTIME_WEIGHTS_WEIGHT_NAMES_H_
#define CASTOR_RUNTIME_WEIGHTS_WEIGHT_NAMES_H_

namespace castor {

inline constexpr char kWeightsName[] = "model.safetensors";
inline constexpr char kWeightsIndexName[] = "model.safetensors.index.json";

}  // namespace castor

#endif  // CASTOR_RUNTIME_WEIGHTS_WEIGHT_NAMES_H_
