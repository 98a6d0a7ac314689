// A label of a whole sequence beside those of its words.
//
// A data set has one target a token. Where sequences have labels of their own
// (Architecture::sequence_labels), the target of a sequence's first token says
// both in one number,
//
//   (vocabulary + 1) * (1 + label) + word,   word = vocabulary for none,
//
// which is greater than every word's. Targets without such a label are as they
// are everywhere: a word, or -100.
//
// A model that says spans (ModelTask::kSpan) has two positions of a sequence in
// the same way: where the span begins in the place of the word, where it ends
// in that of the label, and the number of positions in that of the vocabulary.
#ifndef CASTOR_RUNTIME_DATA_SEQUENCE_LABEL_H_
#define CASTOR_RUNTIME_DATA_SEQUENCE_LABEL_H_

#include <cstdint>

#include "runtime/data/data_set.h"

namespace castor {

struct TwoTargets {
  int32_t word = kNoTarget;      // in [0, vocabulary), or kNoTarget
  int32_t sequence = kNoTarget;  // in [0, sequence labels), or kNoTarget
};

// The greatest number that JoinTargets gives.
inline int64_t GreatestTarget(int64_t vocabulary, int64_t sequence_labels) {
  return (vocabulary + 1) * (1 + sequence_labels) - 1;
}

// `vocabulary` is the model's; GreatestTarget fits 31 bits.
inline int32_t JoinTargets(const TwoTargets& targets, int64_t vocabulary) {
  if (targets.sequence == kNoTarget) return targets.word;
  const int64_t word = targets.word == kNoTarget ? vocabulary : targets.word;
  return static_cast<int32_t>((vocabulary + 1) * (1 + targets.sequence) + word);
}

inline TwoTargets SplitTarget(int32_t target, int64_t vocabulary) {
  if (target < vocabulary) return {.word = target};
  const int64_t word = target % (vocabulary + 1);
  return {.word = word == vocabulary ? kNoTarget : static_cast<int32_t>(word),
          .sequence = static_cast<int32_t>(target / (vocabulary + 1) - 1)};
}

}  // namespace castor

#endif  // CASTOR_RUNTIME_DATA_SEQUENCE_LABEL_H_
