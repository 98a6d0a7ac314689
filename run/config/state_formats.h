// "optimizer.state_format": in what an optimizer's states are kept.
#ifndef CASTOR_RUN_CONFIG_STATE_FORMATS_H_
#define CASTOR_RUN_CONFIG_STATE_FORMATS_H_

#include "base/json_reader.h"
#include "run/optim/optimizer.h"

namespace castor {

// The moments' format for an optimizer of this kind: what "state_format" of the
// optimizer's object says, else the row's own. InvalidArgument, in the reader's
// report: the optimizer has no formats, its name says another one, or the
// format is not there yet.
MomentFormat ReadMomentFormat(JsonReader& optimizer, const OptimizerRow& row);

}  // namespace castor

#endif  // CASTOR_RUN_CONFIG_STATE_FORMATS_H_
