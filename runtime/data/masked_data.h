// Samples of which some tokens are masked, for a model to say what they were.
//
// Each token that has a target is chosen with the probability p; its target
// stays, and all others' go. Labels of sequences (sequence_label.h) stay. Of
// the chosen, 80 % become the mask token, 10 % a token at random, and 10 % stay
// as they are. Source: Devlin et al., "BERT", 2018, section 3.1, and
// transformers' DataCollatorForLanguageModeling.
//
// Draws follow from the seed, the sample's position in the run and the token's
// place in it alone: other tokens are masked in each epoch, and the same ones
// on any number of ranks, at any budget and after any resume. An evaluation's
// positions begin at 0, so its masks are the same each time.
#ifndef CASTOR_RUNTIME_DATA_MASKED_DATA_H_
#define CASTOR_RUNTIME_DATA_MASKED_DATA_H_

#include <cstdint>
#include <memory>

#include "runtime/data/data_set.h"

namespace castor {

struct MaskRule {
  double probability = 0.15;  // p, in (0, 1)
  int32_t mask_token = 0;
  int64_t vocabulary = 0;  // a token at random is below it
  // The model's vocabulary where a first token's target has the label of its
  // sequence, too (sequence_label.h); 0: there are none.
  int64_t joined_vocabulary = 0;
  uint64_t seed = 0;
};

// `data` with masks. Its targets are the tokens that may be masked.
std::unique_ptr<DataSet> MaskData(std::unique_ptr<DataSet> data,
                                  const MaskRule& rule);

}  // namespace castor

#endif  // CASTOR_RUNTIME_DATA_MASKED_DATA_H_
