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
  Repo *machine; /* what libsolv takes for installed: the virtual packages, and those of an environment */
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

/* The name in "<name> <version> <build>". */
static Id name_of_spec(Pool *pool, const char *spec)
{
  return pool_strn2id(pool, spec, strcspn(spec, " "), 1);
}

/* Adds an installed package that is in no channel and constrains another one. In this way libmamba pins a package
 * without installing it (pool_add_pin in its src/solver/libsolv/helpers.cpp). */
static void add_pin(struct ctk *c, Queue *jobs, const char *spec)
{
  Pool *pool = c->pool;
  Id id = repo_add_solvable(c->machine);
  Solvable *s = pool_id2solvable(pool, id);
  Id name = pool_str2id(pool, pool_tmpjoin(pool, "pin-", pool_id2str(pool, name_of_spec(pool, spec)), 0), 1);
  s->name = name;
  s->evr = pool_str2id(pool, "1", 1);
  s->provides = repo_addid_dep(c->machine, 0, pool_rel2id(pool, name, s->evr, REL_EQ, 1), 0);
  solvable_add_idarray(s, SOLVABLE_CONSTRAINS, pool_conda_matchspec(pool, spec));
  queue_push2(jobs, SOLVER_VERIFY, name);
  queue_push2(jobs, SOLVER_LOCK, name);
}

/* Adds libsolv's jobs for one of libmamba's (add_job in the same file). */
static void add_jobs(struct ctk *c, Queue *jobs, const char *job, const char *spec)
{
  Pool *pool = c->pool;
  if (!strcmp(job, "update-all"))
    queue_push2(jobs, SOLVER_UPDATE | SOLVER_SOLVABLE_ALL | SOLVER_CLEANDEPS, 0);
  else if (!strcmp(job, "install"))
    queue_push2(jobs, SOLVER_INSTALL, pool_conda_matchspec(pool, spec));
  else if (!strcmp(job, "remove"))
    queue_push2(jobs, SOLVER_ERASE | SOLVER_CLEANDEPS, pool_conda_matchspec(pool, spec));
  else if (!strcmp(job, "keep"))
    queue_push2(jobs, SOLVER_USERINSTALLED, pool_conda_matchspec(pool, spec));
  else if (!strcmp(job, "freeze"))
    queue_push2(jobs, SOLVER_LOCK, pool_conda_matchspec(pool, spec));
  else if (!strcmp(job, "update"))
    {
      queue_push2(jobs, SOLVER_UPDATE | SOLVER_CLEANDEPS, name_of_spec(pool, spec));
      /* libsolv's update is of what is installed: a version or build has to be installed. */
      if (strchr(spec, ' '))
        queue_push2(jobs, SOLVER_INSTALL, pool_conda_matchspec(pool, spec));
    }
}

/* Reads the records of the packages of an environment; none if there is no path. Returns 0 if they cannot be read. */
static int add_installed(struct ctk *c, const char *path)
{
  if (!*path)
    return 1;
  FILE *file = fopen(path, "r");
  if (!file)
    return 0;
  int failed = repo_add_conda(c->machine, file, 0);
  fclose(file);
  return !failed;
}

static void add_virtual_packages(struct ctk *c, const char *machine)
{
  char *line, *rest, *text = strdup(machine);
  repo_add_repodata(c->machine, 0);
  for (line = strtok_r(text, "\n", &rest); line; line = strtok_r(0, "\n", &rest))
    {
      char *parts, *name = strtok_r(line, " ", &parts);
      char *version = strtok_r(0, " ", &parts), *build = strtok_r(0, " ", &parts);
      add_virtual_package(c, name, version, build ? build : "0");
    }
  free(text);
}

/* Adds the jobs of one kind of lines: the pins, or all but the pins. */
static void add_lines(struct ctk *c, Queue *jobs, const char *request, int pins)
{
  char *line, *rest, *text = strdup(request);
  for (line = strtok_r(text, "\n", &rest); line; line = strtok_r(0, "\n", &rest))
    {
      char *spec, *job = strtok_r(line, " ", &spec);
      int is_pin = !strcmp(job, "pin");
      if (is_pin && pins)
        add_pin(c, jobs, spec);
      else if (!is_pin && !pins)
        add_jobs(c, jobs, job, spec);
    }
  free(text);
}

/* Writes what the solver decided of each package. */
static void write_decisions(struct ctk *c, Solver *solver, FILE *answer)
{
  Queue decided;
  queue_init(&decided);
  solver_get_decisionqueue(solver, &decided);
  for (int i = 0; i < decided.count; i++)
    {
      Id p = decided.elements[i];
      Solvable *s = pool_id2solvable(c->pool, p < 0 ? -p : p);
      const char *name = pool_id2str(c->pool, s->name);
      if (p < 0 && s->repo == c->machine)
        fprintf(answer, "-%s\n", name);
      else if (p > 0 && s->repo == c->machine)
        fprintf(answer, "=%s\n", name);
      else if (p > 0 && s->repo && s->repo->name)
        fprintf(answer, "+%s %s\n", s->repo->name, solvable_lookup_location(s, 0));
    }
  queue_free(&decided);
}

/* Solves a request.
 *
 * machine: virtual packages, "<name> <version> <build>" a line.
 * installed: the path of a repodata.json with the packages of the environment; "" for an empty one.
 * request: "<job> <name> <version> <build>" a line, in the order in which clients hand it over. The jobs are those of
 *   libmamba: install, remove, update, update-all, keep, freeze, pin.
 * lock: whether virtual packages must stay. libmamba locks them since mamba#4312; until then the solver may remove one,
 *   and with it what constraints say of it (mamba#4311).
 * strict: strict channel priority.
 * downgrade: whether installed packages may become older; conda's updates do not allow it.
 *
 * Returns lines, valid until the next call: "ok", then "+<repository> <file>" for each record that is installed,
 * "=<name>" for each package that stays, and "-<name>" for each package, real or virtual, that goes; or "no", then the
 * reasons.
 */
const char *ctk_solve(void *context, const char *machine, const char *installed, const char *request, int lock,
                      int strict, int downgrade)
{
  struct ctk *c = context;
  Pool *pool = c->pool;
  char *out = 0;
  size_t size = 0;
  Queue jobs;
  Id p;
  Solvable *s;

  repo_empty(c->machine, 1);
  free(c->answer);
  if (!add_installed(c, installed))
    return c->answer = strdup("no\nthe records of the environment cannot be read\n");
  int first_virtual = pool->nsolvables;
  add_virtual_packages(c, machine);
  repo_internalize(c->machine);
  queue_init(&jobs);
  FOR_REPO_SOLVABLES(c->machine, p, s)
    if (lock && p >= first_virtual)
      {
        queue_push2(&jobs, SOLVER_VERIFY | SOLVER_SOLVABLE, p);
        queue_push2(&jobs, SOLVER_LOCK | SOLVER_SOLVABLE, p);
      }
  add_lines(c, &jobs, request, 1);
  repo_internalize(c->machine);
  pool_createwhatprovides(pool);
  add_lines(c, &jobs, request, 0);

  Solver *solver = solver_create(pool);
  solver_set_flag(solver, SOLVER_FLAG_ALLOW_DOWNGRADE, downgrade);
  solver_set_flag(solver, SOLVER_FLAG_ALLOW_UNINSTALL, 1);
  solver_set_flag(solver, SOLVER_FLAG_STRICT_REPO_PRIORITY, strict);
  FILE *answer = open_memstream(&out, &size);
  int problems = solver_solve(solver, &jobs);
  fputs(problems ? "no\n" : "ok\n", answer);
  for (int i = 1; i <= problems; i++)
    fprintf(answer, "%s\n", solver_problem2str(solver, i));
  if (!problems)
    write_decisions(c, solver, answer);
  fclose(answer);
  solver_free(solver);
  queue_free(&jobs);
  return c->answer = out;
}
