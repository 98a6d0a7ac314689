// "optimizer.state_format": in what an optimizer's states are kept.
#ifndef CASTOR_RUN_CONFIG_STATE_FORMATS_H_
#define CASTOR_RUN_CONFIG_STATE_FORMATS_H_

#include "base/dtype.h"
#include "base/json_reader.h"
#include "run/optim/formats.h"
#include "run/optim/optimizer.h"

namespace castor {

// The formats of an optimizer of this kind: what "state_format" of the
// optimizer's object says, else the row's own. InvalidArgument, in the reader's
// report: the optimizer has no formats, or its name says others.
StateFormats ReadStateFormats(JsonReader& optimizer, const OptimizerRow& row);

// InvalidArgument, in the report of the document's reader: parameters of
// `dtype` cannot have masters of that format.
void CheckMasters(JsonReader& root, const StateFormats& formats, DType dtype);

}  // namespace castor

#endif  // CASTOR_RUN_CONFIG_STATE_FORMATS_H_
