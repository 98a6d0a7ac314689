// Parts of the reader: each reads the keys of one kind of record. Errors go to
// the fields' error; the record is meaningless then.
#ifndef CASTOR_TRACER_TRACE_RECORDS_H_
#define CASTOR_TRACER_TRACE_RECORDS_H_

#include <string>
#include <vector>

#include "tracer/json_fields.h"
#include "tracer/trace_file.h"

namespace castor {

void ReadStepTrace(JsonFields& fields, StepTrace* trace, std::string* error);
void ReadPlan(JsonFields& fields, const std::vector<StepTrace>& traces,
              PlanRecord* plan, std::string* error);

}  // namespace castor

#endif  // CASTOR_TRACER_TRACE_RECORDS_H_
