// "optimizer.state_format": in what an optimizer's states are kept.
#ifndef CASTOR_RUN_CONFIG_STATE_FORMATS_H_
#define CASTOR_RUN_CONFIG_STATE_FORMATS_H_

#include "absl/strings/string_view.h"
#include "base/json_reader.h"
#include "run/optim/optimizer.h"

namespace castor {

// "moments" of the configuration, by the order of MomentFormat.
absl::string_view MomentFormatName(MomentFormat format);

// The moments' format for an optimizer of this kind: what "state_format" of the
// optimizer's object says, else the row's own. InvalidArgument, in the reader's
// report: the optimizer has no formats, its name says another one, or the
// format is not there yet.
MomentFormat ReadMomentFormat(JsonReader& optimizer, const OptimizerRow& row);

}  // namespace castor

#endif  // CASTOR_RUN_CONFIG_STATE_FORMATS_H_
