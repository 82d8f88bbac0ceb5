/* A library whose name is that of an MPI. */
int anello_stands_in_for_mpi(void) { return 1; }
