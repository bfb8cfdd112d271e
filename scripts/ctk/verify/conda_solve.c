/* What conda's clients do with libsolv, as a small C interface; libsolv.py compiles it with libsolv's sources. */
#define _GNU_SOURCE
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "conda.h"
#include "pool.h"
#include "queue.h"
#include "repo.h"
#include "repo_conda.h"
#include "repodata.h"
#include "solvable.h"
#include "solver.h"

struct ctk
{
  Pool *pool;
  Repo *machine; /* the virtual packages; what libsolv takes for installed */
  char *answer;
};

void *ctk_new(void)
{
  struct ctk *c = calloc(1, sizeof *c);
  c->pool = pool_create();
  pool_setdisttype(c->pool, DISTTYPE_CONDA);
  c->machine = repo_create(c->pool, "installed");
  pool_set_installed(c->pool, c->machine);
  return c;
}

void ctk_free(void *context)
{
  struct ctk *c = context;
  pool_free(c->pool);
  free(c->answer);
  free(c);
}

/* Reads one repodata.json. name is what answers call the repository, and must be unique; the highest priority wins.
 * Returns the number of records, or -1. */
int ctk_add(void *context, const char *path, const char *name, int priority)
{
  struct ctk *c = context;
  FILE *file = fopen(path, "r");
  if (!file)
    return -1;
  Repo *repo = repo_create(c->pool, name);
  repo->priority = priority;
  int failed = repo_add_conda(repo, file, 0);
  fclose(file);
  if (failed)
    return -1;
  repo_internalize(repo);
  /* Clients make python depend on pip, and pip on python: within a repository, and only where it has a pip. */
  Id p, python = pool_str2id(c->pool, "python", 1), pip = pool_str2id(c->pool, "pip", 1);
  Solvable *s;
  int has_pip = 0;
  FOR_REPO_SOLVABLES(repo, p, s)
    has_pip |= s->name == pip;
  FOR_REPO_SOLVABLES(repo, p, s)
    {
      if (has_pip && s->name == python)
        solvable_add_deparray(s, SOLVABLE_REQUIRES, pip, -1);
      if (has_pip && s->name == pip)
        solvable_add_deparray(s, SOLVABLE_REQUIRES, python, 1);
    }
  return repo->nsolvables;
}

static void add_virtual_package(struct ctk *c, const char *name, const char *version, const char *build)
{
  Repodata *data = repo_last_repodata(c->machine);
  Id id = repo_add_solvable(c->machine);
  Solvable *s = pool_id2solvable(c->pool, id);
  s->name = pool_str2id(c->pool, name, 1);
  s->evr = pool_str2id(c->pool, version, 1);
  s->provides = repo_addid_dep(c->machine, 0, pool_rel2id(c->pool, s->name, s->evr, REL_EQ, 1), 0);
  repodata_add_poolstr_array(data, id, SOLVABLE_BUILDFLAVOR, build);
  repodata_set_str(data, id, SOLVABLE_BUILDVERSION, "0");
}

/* Solves a request for an empty environment.
 *
 * machine: virtual packages, "<name> <version> <build>" a line.
 * specs: what is asked for, "<name> <version> <build>" a line, in the order in which clients hand it over.
 * lock: whether virtual packages must stay. libmamba locks them since mamba#4312; until then the solver may remove one,
 *   and with it what constraints say of it (mamba#4311).
 * strict: strict channel priority.
 *
 * Returns lines, valid until the next call: "ok", then "+<repository> <file>" for each record and "-<name>" for each
 * virtual package that was removed; or "no", then the reasons.
 */
const char *ctk_solve(void *context, const char *machine, const char *specs, int lock, int strict)
{
  struct ctk *c = context;
  Pool *pool = c->pool;
  char *text, *line, *rest, *out = 0;
  size_t size = 0;
  Queue jobs, decided;
  Id p;
  Solvable *s;

  repo_empty(c->machine, 1);
  repo_add_repodata(c->machine, 0);
  text = strdup(machine);
  for (line = strtok_r(text, "\n", &rest); line; line = strtok_r(0, "\n", &rest))
    {
      char *parts, *name = strtok_r(line, " ", &parts);
      char *version = strtok_r(0, " ", &parts), *build = strtok_r(0, " ", &parts);
      add_virtual_package(c, name, version, build ? build : "0");
    }
  free(text);
  repo_internalize(c->machine);
  pool_createwhatprovides(pool);

  queue_init(&jobs);
  FOR_REPO_SOLVABLES(c->machine, p, s)
    if (lock)
      {
        queue_push2(&jobs, SOLVER_VERIFY | SOLVER_SOLVABLE, p);
        queue_push2(&jobs, SOLVER_LOCK | SOLVER_SOLVABLE, p);
      }
  text = strdup(specs);
  for (line = strtok_r(text, "\n", &rest); line; line = strtok_r(0, "\n", &rest))
    queue_push2(&jobs, SOLVER_INSTALL, pool_conda_matchspec(pool, line));
  free(text);

  Solver *solver = solver_create(pool);
  solver_set_flag(solver, SOLVER_FLAG_ALLOW_DOWNGRADE, 1);
  solver_set_flag(solver, SOLVER_FLAG_ALLOW_UNINSTALL, 1);
  solver_set_flag(solver, SOLVER_FLAG_STRICT_REPO_PRIORITY, strict);
  FILE *answer = open_memstream(&out, &size);
  int problems = solver_solve(solver, &jobs);
  fputs(problems ? "no\n" : "ok\n", answer);
  for (int i = 1; i <= problems; i++)
    fprintf(answer, "%s\n", solver_problem2str(solver, i));
  if (!problems)
    {
      queue_init(&decided);
      solver_get_decisionqueue(solver, &decided);
      for (int i = 0; i < decided.count; i++)
        {
          p = decided.elements[i];
          s = pool_id2solvable(pool, p < 0 ? -p : p);
          if (p < 0 && s->repo == c->machine)
            fprintf(answer, "-%s\n", pool_id2str(pool, s->name));
          else if (p > 0 && s->repo && s->repo != c->machine && s->repo->name)
            fprintf(answer, "+%s %s\n", s->repo->name, solvable_lookup_location(s, 0));
        }
      queue_free(&decided);
    }
  fclose(answer);
  solver_free(solver);
  queue_free(&jobs);
  free(c->answer);
  return c->answer = out;
}
