// The files of this folder, as the program carries them.
#ifndef CASTOR_MODELS_SHAPES_SHAPE_TEXTS_H_
#define CASTOR_MODELS_SHAPES_SHAPE_TEXTS_H_

#include "absl/types/span.h"
#include "base/embedded_text.h"

namespace castor {

absl::Span<const EmbeddedText> ShapeTexts();

}  // namespace castor

#endif  // CASTOR_MODELS_SHAPES_SHAPE_TEXTS_H_
