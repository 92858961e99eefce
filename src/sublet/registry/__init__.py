"""Operations on the whole registry: copy it to another database, delete a user from it, grant privileges on its tables."""
