#include "model/program.h"

#include <map>
#include <sstream>

namespace anello::model {
namespace {

const char* name(Form form) {
  return form == Form::blocking ? "blocking" : form == Form::nonblocking ? "nonblocking" : "persistent";
}
const char* name(Taking taking) {
  switch (taking) {
    case Taking::recv: return "recv";
    case Taking::probe: return "probe";
    case Taking::iprobe: return "iprobe";
    case Taking::mprobe: return "mprobe";
    case Taking::improbe: return "improbe";
  }
  return "?";
}

std::string type_name(anello_dtype_t dtype) {
  const std::string text = anello_dtype_name(dtype);
  return text == "element" ? "elements of " + std::to_string(anello_dtype_size(dtype)) + " bytes" : text;
}

template <class T>
std::string list(const std::vector<T>& values) {
  std::ostringstream out;
  for (std::size_t i = 0; i < values.size(); ++i) out << (i == 0 ? "" : " ") << values[i];
  return out.str();
}

// What each rank does in its own way, those alike together: "0-2: blocking; 3: persistent in place".
std::string roles(const Step& step) {
  std::map<std::string, std::vector<int>> alike;
  for (std::size_t rank = 0; rank < step.roles.size(); ++rank) {
    const Role& role = step.roles[rank];
    std::ostringstream out;
    if (step.action == Action::split) {
      out << " colour " << (role.color == ANELLO_UNDEFINED ? "none" : std::to_string(role.color)) << " key "
          << role.key;
    } else if (step.action != Action::dup && step.action != Action::subset && step.action != Action::destroy &&
               step.action != Action::error) {
      out << " " << name(role.form) << (role.form == Form::blocking && role.grouped ? " in a group" : "");
      if (step.action == Action::collective && role.in_place)
        out << (role.own_address ? " in place by address" : " in place");
      if (role.mapped) out << " mapped";
      if (role.input_shift != 0 || role.output_shift != 0) out << " +" << role.input_shift << "/+" << role.output_shift;
      if (!step.receives.empty() && role.taking != Taking::recv) out << " " << name(role.taking);
    }
    if (role.sleep_us > 0) out << " after " << role.sleep_us << " us";
    if (!out.str().empty()) alike[out.str()].push_back(int(rank));
  }
  std::string text;
  for (const auto& [what, ranks] : alike) text += (text.empty() ? " |" : ";") + (" " + list(ranks) + ":") + what;
  return text;
}

void write_messages(std::ostream& out, const Step& step) {
  const std::size_t shown = 16;
  out << " of " << type_name(step.dtype);
  for (std::size_t i = 0; i < step.messages.size() && i < shown; ++i) {
    const Message& message = step.messages[i];
    out << (i == 0 ? " " : ", ") << message.from << "->" << message.to << " tag " << message.tag << " count "
        << message.count;
  }
  if (step.messages.size() > shown) out << ", .. (" << step.messages.size() << ")";
  if (step.receives.empty()) return;
  out << "; received as";
  for (std::size_t i = 0; i < step.receives.size() && i < shown; ++i) {
    const Receive& receive = step.receives[i];
    out << (i == 0 ? " " : ", ") << (receive.any_source ? "any source " : "")
        << (receive.tag == ANELLO_ANY_TAG ? "any tag" : "tag " + std::to_string(receive.tag)) << " room "
        << receive.room;
  }
}

}  // namespace

const char* name(anello_kind_t kind) {
  switch (kind) {
    case ANELLO_ALLREDUCE: return "allreduce";
    case ANELLO_BROADCAST: return "broadcast";
    case ANELLO_ALLGATHER: return "allgather";
    case ANELLO_REDUCE_SCATTER_BLOCK: return "reduce_scatter_block";
    case ANELLO_BARRIER: return "barrier";
    case ANELLO_SEND: return "send";
    case ANELLO_RECV: return "recv";
    case ANELLO_REDUCE: return "reduce";
    case ANELLO_GATHER: return "gather";
    case ANELLO_SCATTER: return "scatter";
    case ANELLO_ALLTOALL: return "alltoall";
    case ANELLO_SCAN: return "scan";
    case ANELLO_EXSCAN: return "exscan";
    case ANELLO_ALLGATHERV: return "allgatherv";
    case ANELLO_GATHERV: return "gatherv";
    case ANELLO_SCATTERV: return "scatterv";
    case ANELLO_REDUCE_SCATTER: return "reduce_scatter";
    case ANELLO_ALLTOALLV: return "alltoallv";
    default: return "?";
  }
}

const char* name(Fault fault) {
  switch (fault) {
    case Fault::truncate: return "a receive too short";
    case Fault::count: return "another count";
    case Fault::root: return "another root";
    case Fault::dtype: return "another type";
    case Fault::kind: return "another collective";
    case Fault::bad_root: return "a root out of range";
    case Fault::bad_type: return "an operation that makes no sense";
    case Fault::null_buffer: return "no buffer";
    case Fault::part: return "another part of gatherv";
    case Fault::abort: return "abort";
    case Fault::leave: return "destroy in place of a call";
  }
  return "?";
}

std::string describe(const Program& program, const Step& step) {
  std::ostringstream out;
  out << "step " << step.id << " on c" << step.comm << ": ";
  switch (step.action) {
    case Action::collective:
      out << name(step.kind);
      if (step.kind == ANELLO_BARRIER) break;
      out << " " << type_name(step.dtype);
      if (step.own_op != OwnOp::none) {
        out << (step.own_op == OwnOp::ordered ? " own ordered op" : " own commuting op");
      } else if (reduces(step.kind)) {
        out << " " << anello_op_name(step.op);
      }
      if (varies(step.kind)) {
        out << " counts " << list(step.counts);
      } else {
        out << " count " << step.count;
      }
      if (has_roots(step.kind)) out << " root " << step.root;
      break;
    case Action::message:
      out << "message";
      write_messages(out, step);
      break;
    case Action::burst:
      out << "burst";
      write_messages(out, step);
      break;
    case Action::crowd:
      out << "crowd";
      write_messages(out, step);
      break;
    case Action::shift:
      out << "sendrecv";
      write_messages(out, step);
      break;
    case Action::nobody: out << "to and from nobody, count " << step.count; break;
    case Action::dup: out << "dup"; break;
    case Action::split: out << "split"; break;
    case Action::subset: out << "create_group"; break;
    case Action::destroy: out << "destroy"; break;
    case Action::error:
      out << "error: " << name(step.fault) << " by rank " << step.culprit << ", count " << step.count;
      break;
  }
  for (std::size_t color = 0; color < step.results.size(); ++color) {
    if (step.results[color] < 0) continue;
    out << " -> c" << step.results[color] << " (" << list(program.comms[std::size_t(step.results[color])].members)
        << ")";
  }
  if (step.rounds > 1) out << ", " << step.rounds << " times";
  out << roles(step);
  return out.str();
}

std::string describe(const Program& program) {
  std::ostringstream out;
  out << "program " << program.seed << ": " << program.size() << " ranks, of the job's " << program.job_ranks
      << " ranks " << list(program.order) << "\n";
  for (std::size_t k = 0; k < program.strands.size(); ++k) {
    const Strand& strand = program.strands[k];
    if (strand.steps.empty()) continue;
    if (program.strands.size() > 1) {
      out << " thread " << k << (program.one_after_another ? " (one after another)" : "") << ", c" << k
          << " to begin with\n";
    }
    for (const Step& step : strand.steps) out << "  " << describe(program, step) << "\n";
    bool again = false;
    std::string turns;
    for (const Turn& turn : strand.turns) {
      again = again || turn.round > 0;
      turns +=
          " " + std::to_string(strand.steps[turn.step].id) + (turn.round > 0 ? "'" + std::to_string(turn.round) : "");
    }
    if (again) out << "  in the order" << turns << "\n";
  }
  return out.str();
}

}  // namespace anello::model
